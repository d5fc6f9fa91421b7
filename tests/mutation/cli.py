# SPDX-License-Identifier: Apache-2.0
"""The command line: what is asked for is what is released, charged and said."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("a budget is asked after rows are read", "dpfast/cli/histogram.py", "again = ledger.expect(key, asked.mechanism, resume=resume)", "again = resume",
           "test_histogram_again.py -k 'does_not_suffice or verify_refuses'"),
    Mutant("a unit counts twice in a cell", "dpfast/cli/histogram.py", 'caps["max_per_partition"] = 1', 'caps["max_per_partition"] = 2',
           "test_histogram_cli.py -k 'caps_bound or rows_of_a_person'"),
    Mutant("intervals of all cells are those of one", "dpfast/cli/histogram.py", 'together = self.cells.size if self.cells and "jointly" in self.given else 1', "together = 1",
           "test_histogram_cli.py -k intervals"),
    Mutant("intervals of sums of both signs begin at 0", "dpfast/cli/histogram.py", 'least = 0 if asked.column == "count" or given["clamp"][0] >= 0 else INT64_ENDS[0]', "least = 0",
           "test_histogram_cli.py -k intervals"),
    Mutant("OUT may lie among the rows", "dpfast/cli/histogram.py", '    refuse_inside(source, "ROWS", {"OUT": target, "--metadata": metadata, "--report": report})\n', "",
           "test_histogram_cli.py -k out_must_not_be"),
    Mutant("rows are chosen anew at each try", "dpfast/cli/histogram.py", "**asked.counts, key=release.key)", "**asked.counts)",
           "test_histogram_again.py -k second_run"),
    Mutant("verify reserves a label that is free", "dpfast/cli/histogram.py", 'if options["verify"] and not again:', "if False:",
           "test_histogram_again.py -k verify_refuses"),
    Mutant("a histogram is drawn unpaid", "dpfast/cli/histogram.py", 'how: dict[str, Any] = {"ledger": ledger}', 'how: dict[str, Any] = {"ledger": None}',
           "test_histogram_again.py test_histogram_cli.py -k 'each_run_is_a_release or costs_and_gives'"),
    Mutant("bounds of a histogram are left out", "dpfast/cli/histogram.py", "np.clip(found[asked.column], *within)", "found[asked.column]",
           "test_histogram_cli.py -k bounds"),
    Mutant("--explain opens the rows", "dpfast/cli/histogram.py", "        click.echo(asked.explained())\n        return", "        click.echo(asked.explained())",
           "test_histogram_cli.py -k explain_opens"),
    Mutant("a total epsilon is each column's", "dpfast/cli/privatize.py", 'make(given, len(columns) if epsilon_is == "total" else 1)', "make(given, 1)",
           "test_cli.py -k epsilon_over_columns"),
    Mutant("several columns are charged as one", "dpfast/cli/privatize.py", "if together else [mechanism] * columns", "if together else [mechanism]",
           "test_cli.py test_ledger.py test_privatize_again.py test_report.py -k 'ledger or command_line or charged_and_what'"),
    Mutant("--resume without a key draws anew", "dpfast/cli/privatize.py", "if resume and key is None:", "if False:",
           "test_privatize_again.py -k 'resume or come_together'"),
    Mutant("verify reserves a label of a file that is free", "dpfast/cli/privatize.py", 'if found == "compare" and not sealing.again:', "if False:",
           "test_privatize_again.py -k verify_refuses"),
    Mutant("wrong bounds are found once it is charged", "dpfast/cli/privatize.py", "        column.release(np.empty(0, kind if real else int))", "        pass",
           "test_cli.py test_ledger.py -k 'bounds_are_checked or charges_nothing'"),
    Mutant("the input may be the output", "dpfast/cli/file_options.py", '            if same(path, other):\n                raise ParameterError(f"{what} must not be {name}, got {path}")', "            pass",
           "test_cli.py -k input_is_never"),
    Mutant("a pipe is read twice", "dpfast/cli/privatize.py", 'if key is not None and str(source) == "-":', "if False:",
           "test_everyday_files.py test_privatize_again.py -k 'takes_no_pipe or a_pipe'"),
]  # fmt: skip
