# SPDX-License-Identifier: Apache-2.0
"""A server of PostgreSQL for a module of tests, from Debian's binaries, in a folder of its own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

_names = count()


def programs() -> Path | None:
    """Where initdb and postgres are, if they are installed."""
    if shutil.which("pg_config") is None:
        return None
    found = Path(subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True, check=True).stdout.strip())
    return found if os.access(found / "initdb", os.X_OK) else None


class Server:
    """home: its folder, with the socket and the log. `place` is what psycopg takes."""

    def __init__(self, home: Path) -> None:
        self.home, self.log, self._crashes = home, home / "log", 0
        self.place = f"host={home} user=postgres dbname=postgres"

    def connect(self, **how: Any) -> Any:
        import psycopg

        return psycopg.connect(f"host={self.home} user=postgres", **{"autocommit": True, "dbname": "postgres", **how})

    def again(self) -> Any:
        """A connection, once the server has recovered from the death of one of its processes.

        It hears of that death a moment later, and until then it takes connections that will end.
        """
        import psycopg

        self._crashes += 1
        for _ in range(600):
            with suppress(psycopg.OperationalError):
                if self.log.read_bytes().count(b"reinitializing") >= self._crashes:
                    return self.connect()
            time.sleep(0.05)
        return self.connect()

    def table(self, connection: Any, rows: pa.Table, **kinds: str) -> str:
        """The name of a table with these rows; kinds: types of columns, if they are others."""
        name = f"given_{next(_names)}"
        plain = [
            each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in rows.columns
        ]
        columns = ", ".join(f"{quoted(each.name)} {kinds.get(each.name) or kind_of(each.type)}" for each in rows.schema)
        lines = pa.BufferOutputStream()
        csv.write_csv(pa.table(plain, names=rows.column_names), lines, csv.WriteOptions(include_header=False))
        connection.execute(f"CREATE TABLE {name} ({columns})")
        with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
            copy.write(lines.getvalue())
        return name


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def kind_of(kind: pa.DataType) -> str:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(kind):
        return "numeric(20, 0)" if kind == pa.uint64() else "integer" if kind.bit_width < 64 else "bigint"
    return "double precision" if pa.types.is_floating(kind) else "text"


@contextmanager
def server(bin_: Path) -> Iterator[Server]:
    """PostgreSQL refuses root, so it runs as the user of its package then. It logs every query."""
    home = Path(tempfile.mkdtemp(prefix="dpfast-postgres-", dir="/tmp"))
    other: dict[str, Any] = {"cwd": home}
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(home, user.pw_uid, user.pw_gid)
        other |= {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    quick = {
        "listen_addresses": "",
        "unix_socket_directories": home,
        "fsync": "off",
        "log_statement": "all",
        "autovacuum": "off",
    }
    process = None
    try:
        made = [
            bin_ / "initdb",
            "-D",
            home / "data",
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]
        subprocess.run(made, check=True, stdout=subprocess.DEVNULL, **other)
        with (home / "log").open("wb") as log:
            given = [f"-c{name}={value}" for name, value in quick.items()]
            process = subprocess.Popen([bin_ / "postgres", "-D", home / "data", *given], stderr=log, **other)
        found = Server(home)
        for _ in range(600):
            if process.poll() is not None or b"ready to accept" in found.log.read_bytes():
                break
            time.sleep(0.05)
        yield found
    finally:
        if process is not None:
            process.send_signal(signal.SIGQUIT)  # at once
            process.wait()
        shutil.rmtree(home)
