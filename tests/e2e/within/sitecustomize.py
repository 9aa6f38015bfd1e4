"""What a test does inside of the server that it has started: Python runs this file before anything of the server's.

`HERMES_TEST_CLOCK` names a file with a number, by which the wall clock is moved: `time.time` and `datetime.now`, in
every process that has this file in its path. `HERMES_TEST_CRASH` names a file and functions, as `module:name` or
`module:Class.name`. While the file says `before` or `after` and one of them, the process that comes to that moment
removes the file and is killed, a server with its master, as by a power cut.
"""

from __future__ import annotations

import datetime
import functools
import importlib.abc
import mmap
import os
import signal
import sqlite3  # noqa: F401  (it learns to store the real datetime, before anybody sees the wrong one)
import struct
import sys
import time
from collections.abc import Callable
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

# -- a wall clock that can be moved -----------------------------------------------------------------------


def move_clock(path: str) -> None:
    """From now on the wall clock goes wrong by as many seconds as the file says, which may change at any time."""
    with open(path, "r+b") as file:
        moved = mmap.mmap(file.fileno(), 8, access=mmap.ACCESS_READ)
    real_time, real_datetime = time.time, datetime.datetime

    def wrong_time() -> float:
        return real_time() + float(struct.unpack_from("d", moved)[0])

    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, real_datetime)

    class WrongDatetime(real_datetime, metaclass=Kind):
        __slots__ = ()

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            return real_datetime(*args, **kwargs)

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real_datetime.fromtimestamp(wrong_time(), tz)

    time.time = wrong_time
    time.time_ns = lambda: int(wrong_time() * 1e9)
    datetime.datetime = WrongDatetime  # type: ignore[misc]


# -- moments to die at ------------------------------------------------------------------------------------


class Patcher(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets functions of one module end the process, as soon as somebody imports that module."""

    def __init__(self, module: str, functions: list[str], armed: Path, whom: str) -> None:
        self._module = module
        self._functions = functions
        self._armed = armed
        self._whom = whom
        self._real: Any = None

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Takes the place of the module's loader, once."""
        if fullname != self._module or self._real is not None:
            return None
        spec = PathFinder.find_spec(fullname, path)
        assert spec is not None, fullname
        self._real, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the module's own loader does."""
        made: ModuleType | None = self._real.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """Loads it, then changes the functions."""
        self._real.exec_module(module)
        for function in self._functions:
            *owners, name = function.split(".")
            owner = functools.reduce(getattr, owners, module)
            setattr(owner, name, self._deadly(getattr(owner, name), f"{self._module}:{function}"))

    def _deadly(self, function: Callable[..., Any], where: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def dies(*args: Any, **kwargs: Any) -> Any:
            self._die_at(f"before {where}")
            result = function(*args, **kwargs)
            self._die_at(f"after {where}")
            return result

        return dies

    def _die_at(self, moment: str) -> None:
        try:
            if self._armed.read_text(encoding="utf-8") != moment:
                return
            self._armed.unlink()
        except OSError:
            return
        if self._whom == "server":
            os.kill(os.getppid(), signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGKILL)


def let_die(whom: str, armed: str, functions: list[str]) -> None:
    """At each function a process may die, before or after it, when the file `armed` says so."""
    by_module: dict[str, list[str]] = {}
    for function in functions:
        module, _, name = function.partition(":")
        by_module.setdefault(module, []).append(name)
    sys.meta_path[:0] = [Patcher(module, names, Path(armed), whom) for module, names in by_module.items()]


if clock := os.environ.get("HERMES_TEST_CLOCK"):
    move_clock(clock)
if crash := os.environ.get("HERMES_TEST_CRASH"):
    whom, armed, *functions = crash.split()
    let_die(whom, armed, functions)
