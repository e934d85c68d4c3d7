"""What a subcommand ends with. Scripts rely on these numbers: none ever changes its meaning."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 4
    REFUSED = 5
    UNAVAILABLE = 69
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    Exit.OK: "Done, or all is well.",
    Exit.FAILED: "The answer is bad: a check is not met, a breach was found, the task failed.",
    Exit.USAGE: "The command was not understood, or lacks something; nothing was changed.",
    Exit.NOT_FOUND: "Nothing matches; nothing was changed.",
    Exit.REFUSED: "Not confirmed, or the tasks are in the wrong status; nothing was changed.",
    Exit.UNAVAILABLE: "The database cannot be used.",
    Exit.INTERRUPTED: "Ended by Ctrl-C. What was reported as done is done.",
    Exit.BROKEN_PIPE: "Whoever read the output closed it, as ``head`` does.",
}


class CliError(Exception):
    """What went wrong and what to type instead."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code
