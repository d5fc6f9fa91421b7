#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The tests of adapters whose libraries want an environment each, every one in its own.
#
#     tests/own_environments.sh FOLDER [smartnoise] [tumult] [opacus] [spark]
#
# FOLDER keeps the environments. PYTHON (python3) makes them; tumult wants Java 8, 11 or 17,
# spark 17 or 21.
# They cannot share one: Tumult Core holds NumPy and, up to Python 3.11, pandas below 2, and SymPy
# below 1.13, which PyTorch wants above; SmartNoise holds OpenDP at 0.14 and pandas below 3.
# Spark is half a gigabyte, and warns of pandas 3.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift

pins() {
    case $1 in
        smartnoise) echo smartnoise-sql==1.0.10 ;;
        tumult) echo tmlt.core==0.20.0 ;;
        opacus) echo opacus==1.6.0 torch==2.13.0 ;;
        spark) echo "pyspark[connect]==4.3.0" "pandas<3" "pyarrow>=20" ;;
        *) echo "no such adapter: $1" >&2 && exit 2 ;;
    esac
}

rm -rf "$folder/source" "$folder/wheel"
mkdir "$folder/source"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -t "$folder/source")
cd "$folder" # no module of another folder is in the way, of Spark's workers either
"${PYTHON:-python3}" -m pip wheel --quiet --no-deps --wheel-dir "$folder/wheel" "$folder/source"

for adapter in ${*:-smartnoise tumult opacus spark}; do
    wanted=$(pins "$adapter")
    bin=$folder/$adapter/bin
    test -x "$bin/python" || "${PYTHON:-python3}" -m venv "$folder/$adapter"
    case $adapter in opacus) "$bin/pip" install --quiet torch==2.13.0 ;; esac # first, and alone: the build for the CPU, if there is one
    # shellcheck disable=SC2086 # words
    "$bin/pip" install --quiet $wanted "pytest>=8" "scipy>=1.12" "hypothesis>=6.100"
    "$bin/pip" install --quiet --force-reinstall --no-deps "$folder"/wheel/*.whl
    "$bin/pip" install --quiet "$folder"/wheel/*.whl
    echo "$adapter: $("$bin/python" --version), $wanted"
    # `python -m pytest` would import the folder's package; pytest-xdist's options do not apply
    "$bin/pytest" --quiet -p no:cacheprovider -o addopts= "$root"/tests/*/"test_$adapter.py"
done
