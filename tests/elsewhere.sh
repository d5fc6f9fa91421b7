#!/usr/bin/env bash
# tests/elsewhere.sh OUT [TARGET ...]    builds the C for other systems into OUT, and runs it where
# it can: every row of tests/vectors by each instruction set (tests/c/golden.c), what sanitize.c
# there compares, and forks (forked.c). A target whose tools are missing is named and left out.
# ZIG="python -m ziglang" if zig is not on PATH.
# What it looks for is planted, too, and must be found. It takes 110 seconds of a processor.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$(realpath -m "${1:?say where builds go: tests/elsewhere.sh OUT}")
shift
all=(musl aarch64 macos-x86_64 macos-aarch64 windows-msvc windows-mingw)
mkdir -p "$out"
read -ra zig <<<"${ZIG:-zig}"
export WINEPREFIX=$out/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" ZIG_GLOBAL_CACHE_DIR=$out/zig ZIG_LOCAL_CACHE_DIR=$out/zig
trap 'kill $(jobs -p) 2>/dev/null || true; if [ -d "$WINEPREFIX" ]; then wineserver -k || true; fi' EXIT

level=-O2
flags=(-std=c11 -ffp-contract=off -fno-math-errno -fno-trapping-math -Wall -Wextra -pedantic -Wconversion
    -Wshadow -Wno-psabi -Werror "-I$PWD/csrc")
rows=$(cat tests/vectors/*.json | grep -c sha256)
machine=portable
if [ "$(uname -m)" = x86_64 ]; then # what Linux says of this CPU
    has() { for name; do grep -qm1 "^flags.* $name\b" /proc/cpuinfo || return 1; done; }
    if has avx2 fma bmi1 bmi2 popcnt; then machine+=" avx2"; fi
    if has avx2 fma bmi1 bmi2 popcnt avx512f avx512bw avx512cd avx512dq avx512vl; then machine+=" avx512"; fi
fi

# ------------------------------------------------------------------ what is looked at

sources=("$PWD"/csrc/[a-z]*.c)
objects() { # NAME CC...: of all sources; zig makes one of them all
    mkdir -p "$out/$1"
    (cd "$out/$1" && "${@:2}" $level "${flags[@]}" -c "${sources[@]}")
}

rows_equal() { # SETS GOLDEN...: all rows, by these sets and no fewer
    local said
    said=$("${@:2}" tests/vectors/*.json | tr -d '\r') || return 1
    [ "$said" = "golden: $rows rows equal by $1" ] || { echo "not on $1: $said"; return 1; }
    echo "$said"
}

compared() { # SETS SANITIZE...
    local said count
    said=$("${@:2}" | tr -d '\r') || return 1
    count=$(wc -w <<<"$1")
    [[ $said =~ on\ $count\ instruction\ sets?$ ]] || { echo "not on $1: $said"; return 1; }
    echo "$said"
}

forks() { # FORKED...: no child repeats its parent, one handler, pages used again
    local said
    said=$("$@" 2)
    [ "$said" = "0 0 1 1" ] || { echo "forks: $said"; return 1; }
    echo "forks: 64 children, none repeats its parent"
}

# Windows aligns a stack to 16 bytes alone, and GCC's bug 54412 forgets it: a move of 32 or 64 bytes
# that needs an aligned place, in a function that does not align its own stack.
aligned_moves() { # OBJECT...: names those functions, and fails if there is one
    x86_64-w64-mingw32-objdump -d --no-show-raw-insn "$@" | awk '
        /^[0-9a-f]+ <.*>:$/ { name = $2; aligns = 0 }
        /\tand +\$0xf+[ce8]0,%rsp/ { aligns = 1 }
        /\tvmov(aps|apd|dqa|dqa32|dqa64) .*%[yz]mm/ && /\(/ && !/\(%rip\)/ && !aligns { print "an aligned move: " name $0; found = 1 }
        END { exit found }'
}

# ------------------------------------------------------------------ targets

# By zig, whose __builtin_cpu_supports answers 0 to all. Debian's musl would do as well, but
# snappy-java takes a machine that has it for Alpine, and then Spark reads no Parquet.
run_musl() {
    local level="-O1 -fno-sanitize=undefined" name cc=("${zig[@]}" cc -target x86_64-linux-musl)
    mapfile -t sources < <(printf '%s\n' "${sources[@]}" | grep -v /cpu.c) # it is spoilt below
    objects musl "${cc[@]}"
    "${cc[@]}" $level "${flags[@]}" -c -o "$out/musl/cpu.o" csrc/cpu.c
    for name in golden sanitize; do "${cc[@]}" $level "${flags[@]}" -o "$out/musl/$name" "tests/c/$name.c" "$out"/musl/*.o; done
    "${cc[@]}" $level "${flags[@]}" -pthread -o "$out/musl/forked" tests/c/forked.c csrc/bit_generator.c csrc/chacha.c
    rows_equal "$machine" "$out/musl/golden"
    compared "$machine" "$out/musl/sanitize"
    forks "$out/musl/forked"
    # Planted: a CPU that does not answer, and a row with another digest.
    mkdir -p "$out/planted"
    sed 's/("cpuid"/("xorl %%eax, %%eax; xorl %%ebx, %%ebx; xorl %%ecx, %%ecx; xorl %%edx, %%edx"/' csrc/cpu.c >"$out/planted/cpu.c"
    "${cc[@]}" $level "${flags[@]}" -o "$out/planted/golden" tests/c/golden.c "$out/planted/cpu.c" "$out/musl/arrow.o"
    if [ "$machine" != portable ] && rows_equal "$machine" "$out/planted/golden" >"$out/planted/said"; then echo "planted, not found: CPUID without an answer"; return 1; fi
    sed 's/"sha256": "./&0/' tests/vectors/laplace.json >"$out/planted/laplace.json"
    if "$out/musl/golden" "$out/planted/laplace.json" 2>/dev/null; then echo "planted, not found: another digest"; return 1; fi
    echo "planted and found: CPUID without an answer, another digest"
}

run_aarch64() { # one plan of five: qemu is ten times slower
    objects aarch64 aarch64-linux-gnu-gcc
    local name
    for name in golden sanitize; do
        aarch64-linux-gnu-gcc $level "${flags[@]}" -static -o "$out/aarch64/$name" "tests/c/$name.c" "$out"/aarch64/*.o
    done
    aarch64-linux-gnu-gcc $level "${flags[@]}" -static -pthread -o "$out/aarch64/forked" tests/c/forked.c csrc/bit_generator.c csrc/chacha.c
    rows_equal "portable neon" qemu-aarch64 "$out/aarch64/golden"
    compared "portable neon" qemu-aarch64 "$out/aarch64/sanitize" 5
    forks qemu-aarch64 "$out/aarch64/forked"
}

windows() { # NAME: by wine, with the objects that are there, some of them by another compiler
    local name
    for name in golden sanitize; do
        x86_64-w64-mingw32-gcc $level "${flags[@]}" "${unaligned[@]}" -static -o "$out/$1/$name.exe" "tests/c/$name.c" "$out/$1"/*.o
    done
    aligned_moves "$out/$1"/*.o
    echo "no aligned move on a stack of 16 bytes"
    wait_for_wine
    rows_equal "$machine" wine "$out/$1/golden.exe"
    compared "$machine" wine "$out/$1/sanitize.exe" 3
}
unaligned=(-Wa,-muse-unaligned-vector-move)
wait_for_wine() { # two targets use it, and one makes it
    exec 9>"$out/wine.lock"
    flock 9
    [ -d "$WINEPREFIX" ] || wineboot -i >/dev/null 2>&1
    flock -u 9
}

run_windows-mingw() {
    objects windows-mingw x86_64-w64-mingw32-gcc "${unaligned[@]}"
    windows windows-mingw
    # Planted: an aligned store in a frame of 16 bytes; not in one that is aligned.
    printf 'planted:\n%s vmovaps %%ymm0, 32(%%rsp)\n ret\n' "" >"$out/planted.s"
    printf 'sound:\n%s vmovaps %%ymm0, 32(%%rsp)\n ret\n' " andq \$-32, %rsp
" >"$out/sound.s"
    x86_64-w64-mingw32-as -o "$out/planted.obj" "$out/planted.s"
    x86_64-w64-mingw32-as -o "$out/sound.obj" "$out/sound.s"
    aligned_moves "$out/sound.obj"
    if aligned_moves "$out/planted.obj" >/dev/null; then echo "planted, not found: an aligned store on a stack of 16 bytes"; return 1; fi
    echo "planted and found: an aligned store on a stack of 16 bytes"
}

# What clang-cl compiles, with headers made here for lack of Microsoft's, and mingw's runtime.
run_windows-msvc() {
    mkdir -p "$out/headers"
    printf '#include <stddef.h>\nvoid *malloc(size_t);\nvoid *calloc(size_t, size_t);\nvoid free(void *);\nvoid abort(void);\n' >"$out/headers/stdlib.h"
    printf '#include <stdlib.h>\n' >"$out/headers/malloc.h"
    printf '#define ENOMEM 12\n' >"$out/headers/errno.h"
    printf 'typedef struct file FILE;\nFILE *__acrt_iob_func(unsigned);\n#define stderr (__acrt_iob_func(2))\nint fputs(const char *, FILE *);\n' >"$out/headers/stdio.h"
    cat >"$out/headers/string.h" <<'END'
#include <stddef.h>
void *memcpy(void *restrict, const void *restrict, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
int memcmp(const void *, const void *, size_t);
size_t strlen(const char *);
END
    objects windows-msvc clang --target=x86_64-pc-windows-msvc -isystem "$out/headers"
    # What MSVC's own runtime has besides.
    printf '.globl __chkstk, _fltused\n__chkstk: jmp ___chkstk_ms\n.data\n_fltused: .long 0x9875\n' >"$out/runtime.s"
    x86_64-w64-mingw32-as -o "$out/windows-msvc/runtime.o" "$out/runtime.s"
    windows windows-msvc
}

macos() { # no program of macOS runs here, so it is compiled in a hurry; zig has macOS's names
    local level="-O0 -fno-sanitize=undefined" name # zig's own choice at this level needs a runtime
    objects "macos-$1" "${zig[@]}" cc -target "$1-macos"
    for name in golden sanitize; do
        "${zig[@]}" cc -target "$1-macos" $level "${flags[@]}" -c -o "$out/macos-$1.$name.o" "tests/c/$name.c"
        (cd "$out" && "${zig[@]}" build-exe -target "$1-macos" -fno-compiler-rt -fno-ubsan-rt -lc --name "macos-$1.$name" \
            "macos-$1.$name.o" "macos-$1"/*.o)
    done
    echo "compiled and linked without a warning; not run"
}
run_macos-aarch64() { macos aarch64; }
run_macos-x86_64() { macos x86_64; }

# ------------------------------------------------------------------ all of them, side by side

tools_of() {
    case $1 in
    aarch64) echo aarch64-linux-gnu-gcc qemu-aarch64 ;;
    windows-mingw) echo x86_64-w64-mingw32-gcc wine ;;
    windows-msvc) echo x86_64-w64-mingw32-gcc wine clang ;;
    *) echo "${zig[0]}" ;;
    esac
}

failed=0
declare -A name_of=()
collect() { # one that has ended
    local pid status=0
    wait -n -p pid "${!name_of[@]}" || status=$?
    local name=${name_of[$pid]}
    unset "name_of[$pid]"
    sed "s/^/$name: /" "$out/$name.log"
    if [ "$status" -ne 0 ]; then echo "$name: FAILED"; failed=1; fi
}
for target in "${@:-${all[@]}}"; do
    missing=
    for tool in $(tools_of "$target"); do command -v "$tool" >/dev/null || missing+=${missing:+, }$tool; done
    if [ -n "$missing" ]; then
        echo "$target: not run, $missing is not installed"
        continue
    fi
    if [ "${#name_of[@]}" -ge "$(nproc)" ]; then collect; fi
    (set -e; SECONDS=0; "run_$target"; echo "$SECONDS s") >"$out/$target.log" 2>&1 &
    name_of[$!]=$target
done
while [ "${#name_of[@]}" -gt 0 ]; do collect; done
exit "$failed"
