# SPDX-License-Identifier: Apache-2.0
"""What pyproject.toml has no form for: the C extension, the wheel's tag, the package page."""

import re
import shutil
import sysconfig
import tomllib
from pathlib import Path

from setuptools import setup
from setuptools.command.build_ext import build_ext

HERE = Path(__file__).resolve().parent
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def page(readme: str, repository: str | None) -> str:
    """Return the README as a page elsewhere: its relative links lead to the repository.

    Without a repository a link keeps its text alone, and a picture is left out.
    """

    def link(match: re.Match[str]) -> str:
        picture, text, target = match.groups()
        if repository is None:
            return "" if picture else text
        return f"{picture}[{text}]({repository.rstrip('/')}/{'raw' if picture else 'blob'}/HEAD/{target})"

    return LINK.sub(link, readme)


class BuildExtension(build_ext):
    """Say what is missing before the compiler is called in vain."""

    def build_extensions(self) -> None:
        compiler = self.chosen()
        header = Path(sysconfig.get_path("include")) / "Python.h"
        missing = [
            what
            for what, is_there in (
                (f"the C compiler {compiler!r}", shutil.which(compiler)),
                (f"Python's headers ({header.name})", header.is_file()),
            )
            if not is_there
        ]
        if missing:
            raise SystemExit(
                f"dpfast is being built from source, and {' and '.join(missing)} cannot be found. On Debian or "
                "Ubuntu, run: apt-get install gcc python3-dev. On Windows, install LLVM, whose clang-cl must be on "
                "PATH. Where a wheel of dpfast fits, none of this is needed."
            )
        super().build_extensions()

    def chosen(self) -> str:
        """The C compiler. On Windows it is clang-cl: MSVC's own has no integers of 128 bits."""
        if self.compiler.compiler_type != "msvc":
            return str(self.compiler.compiler_so[0])
        self.compiler.initialize()
        self.compiler.cc = "clang-cl"
        self.compiler.compile_options = [option for option in self.compiler.compile_options if option != "/GL"]
        return "clang-cl"


urls = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
# The wheel is abi3, as the extension is, except on a free-threaded Python, which has no stable ABI.
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
abi3 = {} if free_threaded else {"py_limited_api": "cp311"}

# cffi_modules has no pyproject form.
setup(
    cffi_modules=["csrc/build_ffi.py:ffi"],
    cmdclass={"build_ext": BuildExtension},
    long_description=page((HERE / "README.md").read_text(encoding="utf-8"), urls.get("Repository")),
    long_description_content_type="text/markdown",
    options={"bdist_wheel": abi3},
)
