# SPDX-License-Identifier: Apache-2.0
"""Running totals: each step is bound to all before it, and has one value."""

from __future__ import annotations

from mutation.mutant import Mutant

SEAL, STORE, STEPS = "dpfast/noise/release/steps.py", "dpfast/ledger/store.py", "dpfast/counts/running/steps.py"
STATE = "dpfast/counts/running/state.py"
ROWS, UNITS = "dpfast/counts/running/rows.py", "dpfast/counts/running/units.py"
MUTANTS = [
    Mutant("a chain forgets the steps before", SEAL, '"chain", encode(before, t, *digests))', '"chain", encode(b"", t, *digests))',
           "test_running_steps.py -k 'description or at_each_step'"),
    Mutant("a chain forgets its step's counts", SEAL, '"chain", encode(before, t, *digests))', '"chain", encode(before, t))',
           "test_running_steps.py -k 'description or at_each_step'"),
    Mutant("a chain has the first block alone", SEAL, "for j, at in enumerate(range(0, counts.size, BLOCK))", "for j, at in enumerate(range(0, BLOCK, BLOCK))",
           "test_running_steps.py -k blocks_of"),
    Mutant("a tag forgets what gets the noise", SEAL, "encode(self._encoded, t, chain, *digests)", "encode(self._encoded, t, chain)",
           "test_running_steps.py -k 'description or weaker_seal'"),
    Mutant("a stream key forgets its step", SEAL, "return encode(t, chain, block, digest)", "return encode(block, digest)",
           "test_running_steps.py -k 'description or weaker_seal'"),
    Mutant("two blocks of a step have one key", SEAL, "return encode(t, chain, block, digest)", "return encode(t, chain, digest)",
           "test_running_steps.py -k 'description or blocks_of'"),
    Mutant("a stream key forgets what gets the noise", SEAL, "return encode(t, chain, block, digest)", "return encode(t, chain, block)",
           "test_running_steps.py -k description"),
    Mutant("noise is drawn before its step is reserved", SEAL, "        self._reserve(mine.tag(t, chain, found))\n", "        mine.tag(t, chain, found)\n",
           "test_running_steps.py -k 'at_each_step or description'"),
    Mutant("another input of a step is taken", STORE, "return not compare_digest(there, step.tag), None", "return False, None",
           "test_running_steps.py -k at_each_step"),
    Mutant("the step before is not asked for", STORE, "if _tag(connection, self.path, number, step.t - 1) != step.before:", "if False:",
           "test_running_steps.py -k 'ahead_of'"),
    Mutant("a step is reserved before its counts are written", STORE, "            ahead()\n", "            pass\n",
           "test_running_steps.py -k 'changed_does_not or a_process'"),
    Mutant("a ledger that lacks tags is believed", STORE, 'return "" if _tag_at(connection, head.tags) == head.tag else f"tag {head.tags}"', 'return ""',
           "test_running_steps.py -k 'weaker_seal or ahead_of'"),
    Mutant("lost steps cost nothing", STORE, 'about.get("kind") == STEPS:', "False:", "test_running_steps.py -k paid_again"),
    Mutant("a head of steps goes back", "dpfast/ledger/head.py", "return self.number, self.tags", "return self.number, 0",
           "test_running_steps.py -k weaker_seal"),
    Mutant("other totals go on under a label", "dpfast/ledger/ledger.py", "            must_be_alike(about.label, where, unlike)\n", "",
           "test_running_steps.py -k a_label"),
    Mutant("totals beyond their ceiling", STEPS, "        if at > ceiling:", "        if False:", "test_running_steps.py -k which_steps"),
    Mutant("names may be traded", STEPS, "[self._order])\n", ")\n", "test_running_steps.py -k a_process"),
    Mutant("two cells have one name", STEPS, "        if twice is not None:", "        if False:", "test_running_steps.py -k costs_nothing"),
    Mutant("a state ahead of the ledger", STEPS, "if found[0].t > last or (", "if False or (", "test_running_steps.py -k ahead_of"),
    Mutant("counts that know of more are taken", STEPS, "        refuse_less(given, totals)\n", "", "test_running_steps.py -k know_their"),
    Mutant("a state without its code", STATE, "if not right or not hmac.compare_digest(", "if not right or hmac.compare_digest(b'', ",
           "test_running_steps.py test_running_rows.py -k 'its_own or damaged'"),
    Mutant("an older state takes the place of a newer one", STATE, "if there is not None and there >= kept.t:", "if False:",
           "test_running_steps.py -k 'older_state or two_processes'"),
    Mutant("another's state is written over", STATE, "        key, t, _, _ = HEADER.unpack_from(begins, len(MARK))\n        self._must_be_ours(self.path, key)\n", "        key, t, _, _ = HEADER.unpack_from(begins, len(MARK))\n",
           "test_running_steps.py -k each_state"),
    Mutant("counts are written beside another's state", STATE, "        self._step_there()\n        with", "        with",
           "test_running_steps.py -k each_state"),
    Mutant("a path is not taken", STEPS, "                file.claim()\n", "                pass\n", "test_running_steps.py -k each_state"),
    Mutant("totals go on that cannot pay again", STORE, "                    if any(steps):  #", "                    if False:  #",
           "test_running_steps.py -k cannot_pay"),
    Mutant("a state that others may read", "dpfast/paths.py", "os.O_CREAT | os.O_EXCL | os.O_WRONLY, follow=False)",
           "os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644, follow=False)", "test_running_steps.py -k 'a_process or anew'"),
]  # fmt: skip
