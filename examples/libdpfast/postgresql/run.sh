#!/usr/bin/env bash
# examples/libdpfast/postgresql/run.sh LIBRARY    builds the aggregate, and starts a server in a
# folder that is gone afterwards. There it makes a release, checks what is promised, and times it.
set -euo pipefail
library=$(realpath "${1:?say where the library is: run.sh LIBRARY}")
cd "$(dirname "$0")"
scratch=$(mktemp -d)
as=(env -C "$scratch")
if [ "$(id -u)" = 0 ]; then # whom the server refuses
    chown postgres "$scratch"
    as+=(runuser -u postgres --)
fi
control=("${as[@]}" "$(pg_config --bindir)/pg_ctl" -s -D "$scratch/data")
trap '"${control[@]}" -m immediate stop || true; rm -rf "$scratch"' EXIT
sql() { "${as[@]}" psql -XqAt -v ON_ERROR_STOP=1 -v module="$scratch/noisy_counts.so" -h "$scratch" postgres "$@"; }

gcc -std=gnu11 -O2 -Wall -Wextra -Werror -shared -fPIC -Wl,--exclude-libs,ALL -isystem "$(pg_config --includedir-server)" \
    -I"$library/include" noisy_counts.c "$library/lib/libdpfast.a" -o "$scratch/noisy_counts.so"
"${control[@]}" initdb -o '-A peer -E UTF8 --locale=C --no-sync' >/dev/null
"${control[@]}" -l "$scratch/log" -o "-k $scratch -c listen_addresses= -c fsync=off" start || { cat "$scratch/log"; exit 1; }

sql <noisy_counts.sql
PGOPTIONS='-c client_min_messages=debug1' sql -P format=aligned -P tuples_only=off <release.sql 2>"$scratch/told" || { cat "$scratch/told"; exit 1; }
[ "$(grep -o 'noise for .*' "$scratch/told")" = 'noise for 5 groups, by one draw' ] || { echo "PostgreSQL: the release is not one draw"; exit 1; }
sql <check.sql
sql <time.sql
