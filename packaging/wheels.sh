#!/usr/bin/env bash
# packaging/wheels.sh sdist            the source distribution of the last commit, in dist/
# packaging/wheels.sh build            wheels for x86-64 and AArch64, in dist/
# packaging/wheels.sh check            builds all of it twice, elsewhere: are the bytes equal?
# packaging/wheels.sh try WHEEL [3.11...]  fresh environments of these Pythons (all here)
# packaging/wheels.sh finish WHEEL...   others' wheels, with a bill of materials, in dist/
# packaging/wheels.sh emulate WHEEL [PART...]  an AArch64 wheel under qemu-user
# What is built is the last commit, never the working tree. Only the package indexes are asked.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
commit=$(git rev-parse HEAD) # whatever is committed while this runs
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct "$commit")
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

say() { printf '+ %s (%d s)\n' "$*" "$SECONDS" >&2; }
die() { printf 'wheels.sh: %s\n' "$*" >&2; exit 1; }

# Python 3.$1 of pyenv, or of the path; nothing if there is none. A shim that runs nothing is none.
python() {
    local found
    for found in "$HOME"/.pyenv/versions/"3.$1".*/bin/python "$(type -P "python3.$1" || true)"; do
        if [ -x "$found" ] && "$found" -c '' 2>/dev/null; then
            echo "$found"
            return
        fi
    done
}
minors=$(sed -n 's/.*"Programming Language :: Python :: 3\.\([0-9]*\)".*/\1/p' pyproject.toml)
least=$(head -n 1 <<<"$minors")

# The versions of pyproject.toml's extra "wheels", in an environment of their own.
tools() {
    tools=$scratch/tools
    local base
    base=$(python "$least")
    [ -n "$base" ] || die "Python 3.$least must be there: a wheel is built by the least Python"
    "$base" -m venv "$tools"
    mapfile -t wanted < <("$base" -c 'import tomllib
for one in tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["wheels"]: print(one)')
    "$tools/bin/pip" install -q --disable-pip-version-check --only-binary :all: "${wanted[@]}" 2>"$scratch/pip" || { cat "$scratch/pip" >&2; exit 1; }
}

# The last commit, in folder $1.
tree() { rm -rf "$1"; mkdir -p "$1"; git archive "$commit" | tar -x -C "$1"; }

sdist() { # folder for the archive, folder for the tree
    say sdist
    tree "$2"
    (cd "$2" && "$tools/bin/python" -m build -q --sdist --no-isolation --outdir "$2/out" . >&2)
    "$tools/bin/python" "$2/packaging/archives.py" "$2"/out/*.tar.gz
    mkdir -p "$1"
    mv "$2"/out/*.tar.gz "$1"
}

# Python's own flags, so that the kernels have the instructions that are measured. Unwind tables are
# for C++ and debuggers. No path, build ID or symbol is left in the library.
compile=(-DNDEBUG -fwrapv -O3 -fPIC -fno-asynchronous-unwind-tables -fno-unwind-tables)
link=(-Wl,--build-id=none -Wl,-s -Wl,-z,relro,-z,now)

wheel() { # machine, compiler, folder for the wheel, folder for the tree
    type -P "$2" >/dev/null || die "$2 is missing: install the Debian package of the compiler for $1"
    say "wheel for $1"
    tree "$4"
    (
        cd "$4"
        CC=$2 LDSHARED="$2 -shared" _PYTHON_HOST_PLATFORM=linux-$1 CFLAGS="${compile[*]} -ffile-prefix-map=$4=." LDFLAGS="${link[*]}" \
            "$tools/bin/python" -m build -q --wheel --no-isolation --outdir "$4/out" . >&2
    )
    "$tools/bin/python" "$4/packaging/archives.py" --avoid "$4" --avoid "$HOME/" --avoid "$scratch" "$4"/out/*.whl
    mkdir -p "$3"
    mv "$4"/out/*.whl "$3"
}

build() { # folder for the wheels, folder for the trees
    wheel x86_64 "${CC_X86_64:-gcc}" "$1" "$2/x86_64"
    wheel aarch64 "${CC_AARCH64:-aarch64-linux-gnu-gcc}" "$1" "$2/aarch64"
}

# Wheels that cibuildwheel built and tagged. Their compilers leave more in them.
finish() { # wheels
    "$tools/bin/python" packaging/archives.py --most 2000000 "$@"
    mkdir -p "$root/dist"
    mv "$@" "$root/dist"
}

# Builds all twice, in folders whose names have other lengths.
check() {
    local once twice
    { sdist "$scratch/one" "$scratch/a"; build "$scratch/one" "$scratch/a"; } >"$scratch/once"
    { sdist "$scratch/two" "$scratch/a/longer/b"; build "$scratch/two" "$scratch/a/longer/b"; } >"$scratch/twice"
    equal "$scratch/once" "$scratch/twice"
}
equal() { # two lists of archives with their hashes
    diff "$1" "$2" >&2 || die "two builds of one commit must be equal; the lines above differ"
    cat "$1"
}

# A line for each requirement of the package and of its tests. (.ci/deep lowest tries their least versions.)
requirements() { # python
    PYTHONPATH=tests "$1" -c 'import tomllib
from deep.lowest import floors
for name, least in floors(tomllib.load(open("pyproject.toml", "rb"))).items(): print(name + ">=" + least)'
}

try() { # wheel, Pythons (all that there are if none is named)
    local wheel minor base place
    wheel=$(realpath "$1")
    shift
    [ $# -eq 0 ] || minors=${*#3.}
    tree "$scratch/source"
    for minor in $minors; do
        base=$(python "$minor")
        [ -n "$base" ] || { say "no Python 3.$minor here"; continue; }
        place=$scratch/3.$minor
        say "Python 3.$minor"
        "$base" -m venv "$place"
        mapfile -t wanted < <(requirements "$base")
        "$place/bin/pip" install -q --disable-pip-version-check --only-binary :all: "${wanted[@]}" >"$scratch/pip" 2>&1 || { cat "$scratch/pip" >&2; die "no environment of Python 3.$minor"; }
        "$place/bin/pip" install -q --disable-pip-version-check --no-deps "$wheel" 2>/dev/null
        "$place/bin/pip" check >&2
        tested "$place/bin/python" "3.$minor"
        rm -rf "$place"
    done
}

tested() { # python, its version
    local log=$scratch/log
    (
        cd "$scratch"
        "$1" -m dpfast selftest >"$log" 2>&1 || { tail -n 40 "$log" >&2; die "selftest fails on Python $2"; }
        # Libraries of another age warn: here a warning is no error.
        PYTHONSAFEPATH=1 "$1" -m pytest -q -n 2 -W ignore -p no:cacheprovider "$scratch/source/tests/"{csrc,privacy,noise,ledger,counts,app} >"$log" 2>&1 || { tail -n 60 "$log" >&2; die "tests fail on Python $2"; }
        printf '{"python": "%s", "tests": %s}\n' "$2" "$(passed "$log")"
    )
}
passed() { # log of pytest; 0 if there is none
    local found=0
    [ ! -f "$1" ] || found=$(grep -oE '[0-9]+ passed' "$1" | tail -n 1)
    echo "${found% passed}"
}

# Debian's Python 3.11 and what it links to.
packages=(python3.11-minimal libpython3.11-minimal libpython3.11-stdlib libc6 libexpat1 zlib1g libssl3 libffi8 libbz2-1.0
    liblzma5 libsqlite3-0 libncursesw6 libtinfo6 libreadline8 libuuid1 libcrypt1 libgcc-s1 libstdc++6)

emulate() { # wheel, parts (those of tests/deep/aarch64.py if none is named)
    local wheel site=$scratch/site run=$scratch/python platform base foreign parts
    wheel=$(realpath "$1")
    parts=("${@:2}")
    type -P qemu-aarch64 >/dev/null || die "qemu-aarch64 is missing: install the Debian package qemu-user"
    say "an AArch64 Python"
    mkdir -p "$scratch"/{debs,lists/partial,system}
    chmod 755 "$scratch" # tests become other users, who load that Python, too
    foreign=(-qq -o APT::Architectures::="$(dpkg --print-architecture)" -o APT::Architectures::=arm64 -o Dir::State::Lists="$scratch/lists" -o APT::Sandbox::User=root)
    apt-get "${foreign[@]}" update >&2
    (cd "$scratch/debs" && apt-get "${foreign[@]}" download "${packages[@]/%/:arm64}" >&2)
    for deb in "$scratch"/debs/*.deb; do dpkg -x "$deb" "$scratch/system"; done
    base=$(python 11)
    [ -n "$base" ] || die "Python 3.11 must be there"
    platform=()
    for version in 2_28 2_27 2_26 2_24 2_17; do platform+=(--platform "manylinux_${version}_aarch64"); done
    platform+=(--platform manylinux2014_aarch64 --python-version 3.11 --only-binary :all:)
    mapfile -t wanted < <(requirements "$base")
    say "its packages"
    "$base" -m pip install -q --disable-pip-version-check --target "$site" "${platform[@]}" "${wanted[@]}" >"$scratch/pip" 2>&1 || { cat "$scratch/pip" >&2; die "no AArch64 packages"; }
    "$base" -m pip install -q --disable-pip-version-check --no-deps --target "$site" "${platform[@]}" "$wheel" >&2
    printf '#!/bin/sh\nexec qemu-aarch64 -L %s %s/usr/bin/python3.11 "$@"\n' "$scratch/system" "$scratch/system" >"$run"
    chmod +x "$run"
    # What starts another Python starts it under qemu, too.
    printf 'import sys\nsys.executable = sys._base_executable = "%s"\n' "$run" >"$site/sitecustomize.py"
    # What tests compile is loaded by that Python.
    mkdir "$scratch/compilers"
    for compiler in cc gcc; do ln -s "$(type -P aarch64-linux-gnu-gcc)" "$scratch/compilers/$compiler"; done
    export PYTHONPATH=$site PYTHONDONTWRITEBYTECODE=1 PATH=$scratch/compilers:$PATH
    tree "$scratch/source"
    local log=$scratch/log part known without left pytest
    known=$(table 'print(*PARTS)')
    without=$(table 'print(*options())')
    [ ${#parts[@]} -gt 0 ] || read -ra parts <<<"$known"
    read -ra left <<<"$without"
    # qemu-user stops some forks beside threads by an assertion of its own. What fails is tried again, alone.
    pytest=("$run" -m pytest -q -W ignore -o "cache_dir=$scratch/cache" "${left[@]}")
    cd "$scratch/source/tests"
    export PYTHONSAFEPATH=1
    for part in "${parts[@]}"; do
        say "$part"
        : >"$log.again"
        if [ "$part" = selftest ]; then
            "$run" -m dpfast selftest >"$log" 2>&1
        else
            "${pytest[@]}" -n 2 "$part" >"$log" 2>&1 || {
                grep -qE '^(E +)?ERROR:.*(qemu_plugin|cpu_exec)' "$log" && "${pytest[@]}" --lf "$part" >"$log.again" 2>&1
            }
        fi || { cat "$log" "$log.again" | tail -n 100 >&2; die "$part fails on AArch64"; }
        table 'print(told(*sys.argv[1:]))' "$part" "$log" "$log.again"
    done
}
table() { # Python that sees tests/deep/aarch64.py, its arguments
    PYTHONPATH=$root/tests "$(python 11)" -c "import sys; from deep.aarch64 import *; $1" "${@:2}"
}

case "${1:-}" in
sdist) tools; sdist "$root/dist" "$scratch/tree" ;;
build) tools; build "$root/dist" "$scratch/tree" ;;
check) tools; check ;;
finish) [ $# -ge 2 ] || die "finish needs wheels, as in: packaging/wheels.sh finish others/*.whl"; shift; tools; finish "$@" ;;
equal) [ $# -eq 3 ] || die "equal compares two lists"; equal "$2" "$3" ;;
try) [ $# -ge 2 ] || die "try needs one wheel, as in: packaging/wheels.sh try dist/*x86_64.whl"; shift; try "$@" ;;
emulate) [ $# -ge 2 ] || die "emulate needs one wheel, as in: packaging/wheels.sh emulate dist/*aarch64.whl"; shift; emulate "$@" ;;
*) sed -n '2,8s/^# //p' "$0"; exit 2 ;;
esac
