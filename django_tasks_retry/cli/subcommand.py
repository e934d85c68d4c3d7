"""The subcommands of `manage.py tasks`: how one is declared, what it is given, and what it exits with."""

from __future__ import annotations

import argparse
import difflib
import getpass
import importlib
import os
import pkgutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, partial
from typing import Any, TypeAlias, TypeVar

from ..clock import now
from ..display.scope import Scope
from ..taskqueue import database
from .output import Output

T = TypeVar("T")
Argument: TypeAlias = Callable[[argparse.ArgumentParser], object]
Run: TypeAlias = "Callable[[Context], Exit | None]"  # None stands for Exit.OK


class Exit(IntEnum):
    """Exit codes and their meanings. Scripts rely on the numbers: none ever changes its meaning."""

    OK = 0, "Done, or all is well."
    FAILED = 1, "The answer is bad: a check is not met, a breach was found, the task failed."
    USAGE = 2, "The command was not understood, or lacks something; nothing was changed."
    NOT_FOUND = 4, "Nothing matches; nothing was changed."
    REFUSED = 5, "Not confirmed, or the tasks are in the wrong status; nothing was changed."
    UNAVAILABLE = 69, "The database cannot be used."
    INTERRUPTED = 130, "Ended by Ctrl-C. Changes already reported stay."
    BROKEN_PIPE = 141, "The reader of the output closed it, as ``head`` does."

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member


class CliError(Exception):
    """The message says what went wrong and what to type instead."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Context:
    options: dict[str, Any]
    output: Output
    backend: str

    @property
    def using(self) -> str:
        return database(self.backend)

    @property
    def scope(self) -> Scope:
        """Return the scope with a fresh reading of the clock."""
        return Scope(self.backend, self.using, now(self.using))

    @property
    def decision(self) -> dict[str, Any]:
        """Actor, reason and backend, as the verbs of the service layer take them."""
        return {"by": actor(), "reason": self["reason"], "backend": self.backend}

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    def confirm(self, question: str) -> None:
        """Go on only after a yes, on the terminal or by --yes."""
        if self["yes"]:
            return
        answered = self.output.ask(f"{question} Go on?")
        if answered is None:
            raise CliError(f"{question} Cannot ask for confirmation without a terminal: pass --yes.")
        if not answered:
            raise CliError("Nothing was changed.", Exit.REFUSED)

    def confirm_many(self, count: int, question: str) -> None:
        """More than one task needs a reason and a yes."""
        if count <= 1:
            return
        if not self["reason"]:
            raise CliError(f'{question} Say why: --reason "…"')
        self.confirm(question)


@dataclass(frozen=True, slots=True)
class Subcommand:
    name: str
    help: str
    run: Run
    arguments: tuple[Argument, ...]
    also: tuple[str, ...]  # Words that people may type instead of the name. They are answered with the name.

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for add in self.arguments:
            add(parser)


COMMANDS: dict[str, Subcommand] = {}


def command(name: str, help: str, *arguments: Argument, also: tuple[str, ...] = ()) -> Callable[[Run], Run]:  # noqa: A002
    """Make a function of this package a subcommand: `noun`, `verb` or `noun verb`."""

    def register(run: Run) -> Run:
        COMMANDS[name] = Subcommand(name, help, run, arguments, also)
        return run

    return register


@cache
def subcommands() -> dict[str, Subcommand]:
    """Return all subcommands by name, by importing every module of this package."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"{package.__name__}.{module.name}")
    return dict(sorted(COMMANDS.items()))


def option(*names: str, **settings: Any) -> Argument:
    return lambda parser: parser.add_argument(*names, **settings)


def checked(read: Callable[[str], T]) -> Callable[[str], T]:
    """Turn a ValueError of the reader into one line that says what to write."""

    def value_of(text: str) -> T:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return value_of


REASON = option("--reason", default="", metavar="TEXT", help="kept in the history")
WHY_IT_WAITS = option("--reason", required=True, metavar="TEXT", help="shown to people who ask why its tasks wait")
YES = option("-y", "--yes", action="store_true", help="do not ask")


class Choices(dict[str, Any]):
    """The subcommands that a parser knows. The error for another one names the subcommands that may be meant."""

    def __init__(self, action: argparse.Action, noun: str) -> None:
        super().__init__(dict(action.choices or {}))
        self.action, self.before = action, f"{noun} " if noun else ""

    def __contains__(self, word: object) -> bool:
        if super().__contains__(word):
            return True
        close = [name for name, each in subcommands().items() if f"{self.before}{word}" in each.also]
        close = close or [self.before + known for known in difflib.get_close_matches(str(word), self)]
        listed = ", ".join(f"tasks {name}" for name in close or [self.before + known for known in self])
        advice = f"Did you mean: {listed}?" if close else f"There are: {listed}."
        raise argparse.ArgumentError(self.action, f"there is no tasks {self.before}{word}. {advice}")


def add_subcommands(parser: argparse.ArgumentParser) -> None:
    """Add them sorted by name, so that a noun comes before its verbs."""
    found, choices = {"": parser}, {"": parser.add_subparsers(dest="subcommand", metavar="SUBCOMMAND", required=True)}
    parser.set_defaults(backend=None, json=False)
    for name, each in subcommands().items():
        noun, _, verb = name.rpartition(" ")
        if noun not in choices:
            choices[noun] = found[noun].add_subparsers(metavar="[VERB]")
        found[name] = choices[noun].add_parser(verb, help=each.help, description=each.help)
        found[name].set_defaults(subcommand=name)
        each.add_arguments(found[name])
        add_common(found[name])
    for noun, action in choices.items():
        action.choices = Choices(action, noun)


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add options without defaults, so that a verb keeps those that stand behind its noun."""
    add = partial(parser.add_argument_group("for every subcommand").add_argument, default=argparse.SUPPRESS)
    add("--backend", metavar="ALIAS", help="the alias in TASKS (default: the first that is ours)")
    add("--shard", metavar="NAME", help="one of OPTIONS['SHARDS'] (default: all)")
    add("--json", action="store_true", help="answer in JSON; lists as one object per line")
    add("--no-color", action="store_true", help="no colours")
    # `manage.py` reads these two itself, wherever they stand.
    for name in ("--settings", "--pythonpath"):
        add(name, help=argparse.SUPPRESS)


def actor() -> str:
    """Return who typed the command: `cli:user@host`. With sudo, the user who became root."""
    try:
        name = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        name = str(os.getuid())
    return f"cli:{name}@{socket.gethostname()}"
