# SPDX-License-Identifier: Apache-2.0
"""Other libraries: their cells are read as they are, and their noise is this one."""

from __future__ import annotations

from mutation.mutant import Mutant

MUTANTS = [
    Mutant("expressions of Polars take a key", "dpfast/adapters/polars.py", 'if options.get("key") is not None:', "if False:",
           "test_adapter_polars.py -k under_a_key"),
    Mutant("an index is not sealed", "dpfast/adapters/pandas.py", 'options["names"] = values.index', "pass", "test_adapter_pandas.py -k unasked"),
    Mutant("the offset of an Arrow column is left out", "dpfast/adapters/arrow_capsules.py", "    begin += array.offset\n", "",
           "test_adapter_arrow_capsules.py -k 'columns_of or frames_of'"),
    Mutant("nulls of an Arrow column are read from the first bit", "dpfast/adapters/arrow_capsules.py", "bits[begin - 8 * first :][:length] == 0", "bits[:length] == 0",
           "test_adapter_arrow_capsules.py"),
    Mutant("an Arrow column may be shorter than its rows", "dpfast/adapters/arrow_capsules.py", "if child.length < array.offset + array.length:", "if False:",
           "test_adapter_arrow_capsules.py -k hostile"),
    Mutant("negative lengths of Arrow are followed", "dpfast/adapters/arrow_capsules.py", "if not (0 <= array.length <= MOST and 0 <= array.offset <= MOST):", "if not (array.length <= MOST and array.offset <= MOST):",
           "test_adapter_arrow_capsules.py -k hostile"),
    Mutant("an Arrow structure is never released", "dpfast/adapters/arrow_capsules.py", "            RELEASE(found.release)(ctypes.addressof(found))", "            pass",
           "test_adapter_arrow_capsules.py -k 'released_once or no_memory'"),
    Mutant("what an Arrow stream says of its failure is not looked at", "dpfast/adapters/arrow_capsules.py", "        if failure:  # its", "        if False:  # its",
           "test_adapter_arrow_capsules.py -k hostile"),
    Mutant("an Arrow structure that is released is read", "dpfast/adapters/arrow_capsules.py", "    if not found.release:\n        raise", "    if False:\n        raise",
           "test_adapter_arrow_capsules.py -k hostile"),
    Mutant("the columns of a frame are released one by one", "dpfast/adapters/__init__.py", "return released(np.stack(cells), **options)", "return np.stack([released(each, **options) for each in cells])",
           "test_frames.py -k 'all_cells or one_charge'"),
    Mutant("a frame's labels are not sealed", "dpfast/adapters/__init__.py", 'if options.get("key") is not None:\n        rows', "if False:\n        rows",
           "test_frames.py -k key_seals"),
    Mutant("integers beside floats make one array", "dpfast/adapters/__init__.py", 'if np.result_type(*cells).kind == "f" and kinds != {"f"}:', "if False:",
           "test_frames.py -k several_types"),
    Mutant("labels that no row has come along", "dpfast/adapters/pandas.py", "frame = pd.DataFrame(made, index=_labels_in_use(values.index), copy=False)", "frame = pd.DataFrame(made, index=values.index, copy=False)",
           "test_frames.py -k hidden_labels"),
    Mutant("nulls of Polars are zeros unasked", "dpfast/adapters/__init__.py", "    if missing is None:\n        raise UnusableValuesError(", "    if missing is None:\n        return 0\n        raise UnusableValuesError(",
           "test_adapter_columns.py test_frames.py -k nulls"),
    Mutant("a rounded distance is below the exact loss", "dpfast/adapters/__init__.py", "return near if near >= exact else math.nextafter(near, math.inf)", "return near",
           "test_adapter_opendp.py test_adapter_dp_accounting.py -k 'rounded_up_once or rounded_to_more'"),
    Mutant("an untested version is taken unasked", "dpfast/adapters/__init__.py", "        if not _untested:", "        if False:",
           "test_adapters.py -k versions_outside"),
    Mutant("a seed for diffprivlib is taken and forgotten", "dpfast/adapters/diffprivlib.py", '        self.__dict__["random_state"] = value', '        self.__dict__["random_state"] = None',
           "test_adapter_diffprivlib.py -k seed"),
    Mutant("two columns of DuckDB that differ by case are taken", "dpfast/adapters/duckdb.py", "if len({name.casefold() for name in names}) < len(names):", "if False:",
           "test_adapter_duckdb.py -k case_alone"),
    Mutant("OpenDP's loss is that of half the distance", "dpfast/adapters/opendp.py", "rounded_up(family.loss(Fraction(scale), Fraction(d_in)))", "rounded_up(family.loss(Fraction(scale), Fraction(d_in) / 2))",
           "test_adapter_opendp.py -k 'map_is'"),
]  # fmt: skip
