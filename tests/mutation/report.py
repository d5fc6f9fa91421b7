# SPDX-License-Identifier: Apache-2.0
"""The page about a release: intervals that hold, and text of others that stays text."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("intervals of a page reach beyond public bounds", "dpfast/cli/report.py", "low=[_within(cell - half, *bounds) for cell in cells]", "low=[cell - half for cell in cells]",
           "test_report.py -k intervals_are_those"),
    Mutant("a page's widths forget the other columns", "dpfast/cli/report.py", "half_width(mechanism, USUAL, size * columns)", "half_width(mechanism, USUAL, size)",
           "test_report.py -k intervals_are_those"),
    Mutant("a page without its OUT is kept", "dpfast/cli/report.py", 'if found == "keep" and is_file(path) and without:', "if False:",
           "test_report.py -k report_without_out"),
    Mutant("a page is beside another OUT", "dpfast/cli/report.py", '        if found == "replace":\n            path.unlink(missing_ok=True)\n', "",
           "test_report.py -k never_beside"),
    Mutant("a page says what is spent by now, not what was", "dpfast/cli/report.py", '{name: getattr(last, f"{name}_total") for name in budget}', "ledger.cost(ledger.spent)",
           "test_report.py -k whatever_was_charged_since"),
    Mutant("a page tells the name of IN", "dpfast/cli/report.py", 'shown = label if keyed else ""', "shown = label",
           "test_report.py -k 'charged_and_what or nothing_private'"),
    Mutant("names of others are markup", "dpfast/report/markup.py", "<bdi>{escape(shown)}</bdi>", "<bdi>{shown}</bdi>",
           "test_report.py -k 'hostile or any_text'"),
    Mutant("lines of the record are markup", "dpfast/report/markup.py", "return escape(printable(value))", "return printable(value)",
           "test_report.py -k 'hostile or any_text'"),
    Mutant("the ends of intervals are rounded inwards", "dpfast/report/markup.py", "number(low, digits, ROUND_FLOOR)", "number(low, digits, ROUND_CEILING)",
           "test_report.py -k rounded_outwards"),
    Mutant("what is left of a budget is rounded up", "dpfast/report/page.py", "formatting.amount(of.left[name], up=False)", "formatting.amount(of.left[name], up=True)",
           "test_report.py -k spent_is_rounded_up"),
    Mutant("what is spent is rounded down", "dpfast/report/page.py", "*(formatting.amount(kept[name], up=True)", "*(formatting.amount(kept[name], up=False)",
           "test_report.py -k spent_is_rounded_up"),
    Mutant("rows that a threshold shows have intervals", "dpfast/report/page.py", 'return each.parameters.get("threshold") is not None', "return False",
           "test_report.py -k threshold_shows"),
    Mutant("the largest belief is rounded down", "dpfast/report/page.py", "percent(high, up=True)]", "percent(high, up=False)]",
           "test_report.py -k beliefs_are_rounded"),
    Mutant("a page may run a script", "dpfast/report/style.py", "default-src 'none'", "default-src *",
           "test_report.py test_looks.py -k 'whole or policy'"),
    Mutant("a page that fails costs OUT", "dpfast/cli/report.py", "        except kinds as error:\n            self.failed = self.failed or error", "        except kinds as error:\n            raise error",
           "test_report.py -k not_lost_with"),
    Mutant("a page that has no place is a failure of the release", "dpfast/cli/report.py", 'if not whole or found == "compare" or', "if True or",
           "test_report.py -k not_lost_with"),
    Mutant("Ctrl-C within the page costs OUT", "dpfast/cli/report.py", "self.step(self._write, BaseException)", "self.step(self._write)",
           "test_report.py -k not_lost_with"),
    Mutant("rows that a page cannot show cost OUT", "dpfast/cli/privatize.py", "page.step(partial(seen.add, piece, noisy))", "seen.add(piece, noisy)",
           "test_report.py -k not_lost_with"),
    Mutant("columns of one name are one column of a page", "dpfast/tables/first_rows.py", "[(names[at], []) for at in self._others]", "list({names[at]: [] for at in self._others}.items())",
           "test_report.py -k one_name"),
    Mutant("a terminal that has gone costs a release", "dpfast/terminal.py", "            except Exception:  # a terminal", "            except ZeroDivisionError:  # a terminal",
           "test_report.py -k terminal_that_has_gone"),
]  # fmt: skip
