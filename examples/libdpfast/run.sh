#!/usr/bin/env bash
# examples/libdpfast/run.sh LIBRARY    builds and runs the programs here with the library that
# packaging/libdpfast.sh has built there. One whose compiler is missing is named and left out.
set -euo pipefail
library=$(realpath "${1:?say where the library is: run.sh LIBRARY}")
cd "$(dirname "$0")"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
with=(-I"$library/include" "$library/lib/libdpfast.a")

has() { command -v "$1" >/dev/null || { echo "left out, for there is no $1: $2"; return 1; }; }

if has gcc C; then
    gcc -std=c11 -O2 -Wall -Wextra -Werror counts.c "${with[@]}" -o "$scratch/c"
    "$scratch/c"
fi
if has g++ C++; then
    g++ -std=c++14 -O2 -Wall -Wextra -Werror counts.cpp "${with[@]}" -o "$scratch/cpp"
    "$scratch/cpp"
fi
if has rustc Rust; then
    rustc --edition 2021 -O -D warnings -L "$library/lib" -l static=dpfast counts.rs -o "$scratch/rust"
    "$scratch/rust"
fi
if has javac Java; then
    home=$(dirname "$(dirname "$(realpath "$(command -v javac)")")")
    gcc -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -Wl,--exclude-libs,ALL -I"$home/include" -I"$home/include/linux" counts_jni.c "${with[@]}" \
        -o "$scratch/libcounts_jni.so"
    javac -d "$scratch" Counts.java
    java -Djava.library.path="$scratch" -cp "$scratch" Counts
fi
if has Rscript R; then
    gcc -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -Wl,--exclude-libs,ALL -isystem "$(Rscript -e 'cat(R.home("include"))')" counts_r.c "${with[@]}" \
        -o "$scratch/counts_r.so"
    Rscript counts.R "$scratch/counts_r.so"
fi
if has pg_config PostgreSQL; then
    if [ -e "$(pg_config --includedir-server)/postgres.h" ] && [ -x "$(pg_config --bindir)/initdb" ]; then
        postgresql/run.sh "$library"
    else
        echo "left out, for its server or the server's headers are missing: PostgreSQL"
    fi
fi
