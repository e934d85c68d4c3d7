"""What a subcommand is, and what it is given. A module with a `COMMAND` in views/ or actions/ is one."""

from __future__ import annotations

import argparse
import getpass
import importlib
import os
import pkgutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

from ..display.scope import Scope, console_backend
from ..taskqueue import database
from .exit_codes import Exit
from .output import Output

ROOMS = ("views", "actions")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Context:
    """The options that were given, and where to answer."""

    options: dict[str, Any]
    output: Output
    backend: str

    @property
    def using(self) -> str:
        return database(self.backend)

    @property
    def scope(self) -> Scope:
        """With a fresh reading of the clock."""
        from ..clock import now

        return Scope(self.backend, self.using, now(self.using))

    def __getitem__(self, name: str) -> Any:
        return self.options[name]


def no_arguments(parser: argparse.ArgumentParser) -> None:
    """For subcommands without arguments of their own."""


@dataclass(frozen=True, slots=True)
class Subcommand:
    name: str
    help: str
    run: Callable[[Context], Exit]
    add_arguments: Callable[[argparse.ArgumentParser], None] = no_arguments


@cache
def subcommands() -> dict[str, Subcommand]:
    """By name, those that change nothing first."""
    package = __name__.rpartition(".")[0]
    found = {}
    for room in ROOMS:
        for module in pkgutil.iter_modules(importlib.import_module(f"{package}.{room}").__path__):
            command: Subcommand = importlib.import_module(f"{package}.{room}.{module.name}").COMMAND
            found[command.name] = command
    return found


def argument(read: Callable[[str], T]) -> Callable[[str], T]:
    """Bad values get one line that says what to write."""

    def checked(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return checked


def default_backend() -> str:
    return console_backend()


def actor() -> str:
    """Who typed it: `cli:user@host`. With sudo, the one who became root."""
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        name = str(os.getuid())
    return f"cli:{name}@{socket.gethostname()}"
