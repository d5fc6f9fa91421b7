# SPDX-License-Identifier: Apache-2.0
"""Keys that are secret, too: which are shown, and the threshold that hides the others."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("the threshold is one too low", "dpfast/counts/records/partitions.py", "noisy >= self.threshold", "noisy >= self.threshold - 1",
           "test_thresholded.py -k shown_follows"),
    Mutant("the least threshold is one too low", "dpfast/privacy/threshold.py", "max(1, 1 + unique_floor(", "max(1, unique_floor(",
           "test_thresholded.py -k threshold_is_the_least"),
    Mutant("keys that nobody has enter", "dpfast/counts/records/partitions.py", "_sorted(names, values > 0)", "_sorted(names, values >= 0)",
           "test_thresholded.py -k keys_without_a_count"),
    Mutant("one key of all rows is taken for the worst", "dpfast/privacy/threshold.py",
           "{least, greatest, -(-least // step) * step, greatest // step * step}", "{greatest}",
           "test_thresholded.py -k least_for_rows_in_all"),
    Mutant("as many keys as there can be are taken for the worst", "dpfast/privacy/threshold.py",
           "{least, greatest, -(-least // step) * step, greatest // step * step}", "{least}",
           "test_thresholded.py -k least_for_rows_in_all"),
    Mutant("signed contributions do not cancel", "dpfast/counts/records/partitions.py", " and not sensitivity.signed", "",
           "test_thresholded.py -k not_doubled"),
    Mutant("the least threshold beside Gaussian noise is one too low", "dpfast/privacy/gaussian_threshold.py",
           "True, key=enough) + low", "True, key=enough) + low - 1", "test_thresholded.py -k thresholds_of_gaussian"),
    Mutant("new keys leave as many to be moved", "dpfast/privacy/gaussian_threshold.py", "*closest.without(new)", "*closest.without(0)",
           "test_thresholded.py -k thresholds_of_gaussian"),
    Mutant("the least sigma serves for every threshold", "dpfast/privacy/gaussian_threshold.py", "for step in STEPS:", "for step in STEPS[:1]:",
           "test_thresholded.py -k 'cap_raises or with_caps'"),
    Mutant("a lower linf may leave worse cells", "dpfast/privacy/gaussian_threshold.py", "range(1, min(joined(*self), linf))", "range(0)",
           "test_thresholded.py -k 'cap_raises or with_caps'"),
    Mutant("a seal does not say which parameter is another", "dpfast/ledger/ledger.py", "like.unlike(kept, by_column(mechanism))", "like.unlike(kept)",
           "test_kept.py -k gaussian"),
    Mutant("a pre-threshold leaves the threshold where it was", "dpfast/counts/records/partitions.py", "self._least + self.pre_threshold - 1",
           "self._least", "test_thresholded.py -k pre_threshold"),
    Mutant("private keys are not sealed", "dpfast/counts/records/partitions.py", "Names.of_bytes([runs[i] for i in part.tolist()])", "None",
           "test_thresholded.py -k sealed_with_their_counts"),
    Mutant("5 is the key that '5' is", "dpfast/counts/records/partitions.py", "encode(str(_kind(name)), body)", "encode(body)",
           "test_thresholded.py -k 'canonical and nearly'"),
    Mutant("private keys are read before the price", "dpfast/counts/records/partitions.py", "ledger.expect(under, law, resume=resume)", "pass",
           "test_thresholded.py -k price_is_known"),
    Mutant("thresholded draws unpaid", "dpfast/counts/records/payment.py", " if self.ledger is None else self.ledger.reserve(seal, resume=again)", "",
           "test_thresholded.py -k another_process"),
    Mutant("the rho of Gaussian noise beside a threshold has no delta", "dpfast/counts/records/partitions.py", "rho=of.rho, rho_delta=self.delta, **about)", "rho=of.rho, **about)",
           "test_thresholded.py test_accounting_units.py -k 'gaussian_noise_promises or withheld'"),
    Mutant("a hidden key leaves its width in the dtype", "dpfast/counts/records/partitions.py", "Thresholded(_of_their_own(names[shown])", "Thresholded(names[shown]",
           "test_thresholded.py -k leaves_no_trace"),
    Mutant("hidden keys are shown by their pre-threshold alone", "dpfast/counts/records/partitions.py", "(noisy >= self.threshold) & (counts >= self.pre_threshold)", "(noisy >= self.threshold)",
           "test_thresholded.py -k pre_threshold"),
]  # fmt: skip
