# SPDX-License-Identifier: Apache-2.0
"""C that a process loads first, so that the system answers as a test wants."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GETRANDOM = r"""
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <errno.h>
    #include <signal.h>
    #include <sys/types.h>

    int way = 0, asked = 0;

    ssize_t getrandom(void *at, size_t n, unsigned flags) {
        static ssize_t (*real)(void *, size_t, unsigned);
        if (!real)
            real = (ssize_t (*)(void *, size_t, unsigned))dlsym(RTLD_NEXT, "getrandom");
        asked++;
        if (way == 1 || (way == 3 && asked > 1)) { /* never, or after a first piece */
            errno = EIO;
            return -1;
        }
        if (way == 2)
            return 0;
        if (way == 5) /* as early in boot: a signal comes, and there is nothing yet */
            raise(SIGUSR1);
        if (way == 5 || (way == 4 && asked % 2)) { /* slowly, and interrupted */
            errno = EINTR;
            return -1;
        }
        return real(at, way >= 3 && n > 5 ? 5 : n, flags);
    }
"""


def compiled(folder: Path, source: str) -> Path:
    """A shared library from C source."""
    (folder / "tool.c").write_text(source)
    library = folder / "tool.so"
    command = [
        os.environ.get("CC", "cc"),
        "-shared",
        "-fPIC",
        "-O1",
        "-o",
        str(library),
        str(folder / "tool.c"),
        "-ldl",
        "-lm",
    ]
    subprocess.run(command, check=True, capture_output=True)
    return library
