#!/usr/bin/env bash
# packaging/libdpfast.sh OUT    builds the C library, on Linux alone for now:
#     OUT/include/dpfast.h, dpfast_keyed.h    OUT/lib/libdpfast.a, libdpfast.so.1
#     OUT/lib/pkgconfig/dpfast.pc             which names no path but its own
# It needs gcc (or CC=clang) and binutils, and the same tree and compiler give the same bytes. Of
# the archive's names only dpfast_* are seen by whoever links it, as of the shared library's.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?say where the library goes: packaging/libdpfast.sh OUT}
export LC_ALL=C TZ=UTC
umask 022
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

# As csrc/build_ffi.py compiles the extension: strict IEEE arithmetic.
flags=(-std=c11 -O3 -g0 -fvisibility=hidden -fno-fast-math -fno-unsafe-math-optimizations -fno-associative-math
    -fno-reciprocal-math -fno-finite-math-only -fsigned-zeros -ffp-contract=off -fno-math-errno -fno-trapping-math
    -fPIC -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables -fno-ident)
objects=()
for source in csrc/{chacha,cpu,dispatch,dpfast,entropy,exact,isa_*,plan,rows,self_check}.c; do
    objects+=("$scratch/$(basename "$source" .c).o")
    "${CC:-gcc}" "${flags[@]}" "-DDPFAST_VERSION=\"$version\"" "-ffile-prefix-map=$PWD=." -Icsrc -c -o "${objects[-1]}" "$source" &
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
done
wait

mapfile -t names < <(nm -g --defined-only "$scratch/dpfast.o" | sed -n 's/.* T \(dpfast_.*\)/\1/p')
mkdir -p "$out/include" "$out/lib/pkgconfig"
cp csrc/dpfast.h csrc/dpfast_keyed.h "$out/include"

ld -r --gc-sections "${names[@]/#/--undefined=}" -o "$scratch/whole.o" "${objects[@]}"
objcopy --wildcard '--keep-global-symbol=dpfast_*' --strip-unneeded "$scratch/whole.o"
rm -f "$out/lib/libdpfast.a"
ar rcsD "$out/lib/libdpfast.a" "$scratch/whole.o"

printf 'DPFAST_1 {\n    global: dpfast_*;\n    local: *;\n};\n' >"$scratch/names"
"${CC:-gcc}" -shared -o "$out/lib/libdpfast.so.1" "$scratch/whole.o" -Wl,-soname,libdpfast.so.1 \
    "-Wl,--version-script=$scratch/names" -Wl,--build-id=none -Wl,-z,defs,-z,now,-z,relro,-z,noexecstack -Wl,--gc-sections
strip --strip-unneeded "$out/lib/libdpfast.so.1"
ln -sf libdpfast.so.1 "$out/lib/libdpfast.so"

cat >"$out/lib/pkgconfig/dpfast.pc" <<END
prefix=\${pcfiledir}/../..
Name: dpfast
Description: exact noise for differential privacy
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -ldpfast
END
