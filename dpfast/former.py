# SPDX-License-Identifier: Apache-2.0
"""Modules by the names that they had before: pickles of then name the module of a class."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

ROOMS = {
    **dict.fromkeys(("mechanisms", "release"), "noise"),
    **dict.fromkeys(("records", "trees"), "counts"),
    **dict.fromkeys(("audit", "selftest"), "evidence"),
    "jobs": "engines",
}


class Former:
    """Finds what no other finder does: `dpfast.mechanisms.laplace` is in `dpfast.noise` now."""

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        package, _, inside = name.partition(".")
        room, _, module = inside.partition(".")
        if package != "dpfast" or room not in ROOMS:
            return None
        return ModuleSpec(name, self, is_package=not module)  # type: ignore[arg-type]  # a loader, as importlib has it

    def create_module(self, _: ModuleSpec) -> None:
        """As Python makes one."""

    def exec_module(self, module: ModuleType) -> None:
        """A module in a room is the one that there is now; the room itself passes its names on."""
        _, room, *inside = module.__name__.split(".")
        now = import_module(".".join(["dpfast", ROOMS[room], room, *inside]))
        if inside:
            sys.modules[module.__name__] = now
        else:
            module.__getattr__ = partial(getattr, now)  # type: ignore[method-assign]


def stand_in() -> None:
    """Let the earlier names be found, from now on."""
    sys.meta_path.append(Former())
