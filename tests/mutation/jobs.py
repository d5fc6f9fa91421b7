# SPDX-License-Identifier: Apache-2.0
"""Releases on engines: the driver's verbs, and what each task gives."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("sums keep rows of their own", "dpfast/jobs/verbs.py", "chooser or secret.chooser()", "secret.chooser()", "test_jobs.py -k two_outputs"),
    Mutant("the hash of a frozen block is not compared", "dpfast/jobs/tasks.py", "if data is not None and blake3(data).hexdigest() != self._hashes[block]:", "if False:",
           "test_jobs.py -k 'after_it_was_frozen'"),
    Mutant("a block that is computed twice may differ", "dpfast/jobs/tasks.py", "        if not self.stage.write(name_of(block), data):", "        if not self.stage.write(name_of(block), data) and False:",
           "test_jobs.py -k 'order_of_rows or changed_while'"),
    Mutant("another domain is taken for the stage's", "dpfast/jobs/tasks.py", "if data is None or sha256(data).hexdigest() != digest:", "if data is None:",
           "test_jobs.py -k that_was_replaced"),
    Mutant("keys without a count leave the worker", "dpfast/jobs/tasks.py", "            live = np.flatnonzero(found.counts)\n", "            live = np.arange(len(found.counts))\n",
           "test_jobs.py"),
    Mutant("sums of parts wrap around", "dpfast/jobs/tasks.py", "return np.where(fits, (high << 32) | (low & LOW),", "return np.where(True, (high << 32) | (low & LOW),",
           "test_jobs.py -k saturate"),
    Mutant("keys of a block that are hidden are published", "dpfast/jobs/tasks.py", "return table if self._showing is None else table.filter(pa.array(self._showing.of(counts, noisy)))", "return table",
           "test_jobs.py -k 'withheld'"),
    Mutant("rows are published bucket by bucket", "dpfast/jobs/verbs.py", "table = sort(pa.concat_tables(kept), len(terms.by))", "table = pa.concat_tables(kept)",
           "test_jobs.py -k 'order_and_layout or ascend or rank'"),
    Mutant("a job draws without a reservation", "dpfast/jobs/verbs.py", "sealed = seal.without_ledger(resume=again) if ledger is None else", "sealed = seal.without_ledger(resume=again) if True else",
           "test_jobs.py -k 'pays_once or label_is_one'"),
    Mutant("a job asks its budget after it is sealed", "dpfast/jobs/verbs.py", "        ledger.expect(secret, mechanism, resume=again)\n", "",
           "test_jobs.py -k 'costs_nothing or label_is_one or refuses'"),
    Mutant("the output may be the private stage", "dpfast/jobs/verbs.py", "if out.place == counts.stage.place:", "if False:",
           "test_jobs.py -k costs_nothing"),
    Mutant("a key of another label seals a stage", "dpfast/jobs/verbs.py", "if secret.id != terms.key:", "if False:",
           "test_jobs.py -k 'bad_input or another_release'"),
    Mutant("a mechanism for less releases a job's counts", "dpfast/jobs/verbs.py", "    refuse_less(change, mechanism.sensitivity, mechanism.adjacency, mechanism.unit)", "    (change, mechanism.sensitivity, mechanism.adjacency, mechanism.unit)",
           "test_jobs.py -k 'bad_input or refuses'"),
    Mutant("a threshold for less hides a job's keys", "dpfast/jobs/verbs.py", "if any(has < least for has, least in zip(mechanism.alone, alone(change), strict=True)):", "if False:",
           "test_jobs.py -k 'bad_input or refuses or withheld'"),
    Mutant("verify believes the list of files", "dpfast/jobs/tasks.py", "return name, table.num_rows if same(self._to, name, table) else -1", "return name, table.num_rows",
           "test_jobs.py -k verify"),
    Mutant("another key file on a worker is found late", "dpfast/jobs/verbs.py", "KeyFile(self._place).derive(self._label).id != self._id:", "KeyFile(self._place).derive(self._label).id == 1:",
           "test_jobs.py -k key_file_that_was_replaced"),
    Mutant("a damaged block is drawn", "dpfast/jobs/tasks.py", "            found = _read(self._stage.read(name_of(block)), self._stage, self._plan)", "            found = pa.ipc.open_file(pa.py_buffer(self._stage.read(name_of(block)))).read_all()",
           "test_jobs.py -k damaged"),
    Mutant("DuckDB reads the output by the names of its files", "dpfast/adapters/duckdb.py", 'return _beside(counts, ds.dataset(files, format="parquet", filesystem=fs.LocalFileSystem()))', 'return counts.query("noisy", f"SELECT * FROM read_parquet({files})")',
           "test_adapter_duckdb.py -k whatever"),
    Mutant("DuckDB is not asked whether it reads Arrow", "dpfast/adapters/duckdb.py", "    _must_read_arrow(counts)\n", "",
           "test_adapter_duckdb.py -k before_the_charge"),
    Mutant("a table of DuckDB stands in for the output", "dpfast/adapters/duckdb.py", ".fetchall() == [(seen,)]:", ".fetchall():",
           "test_adapter_duckdb.py -k before_the_charge"),
]  # fmt: skip
