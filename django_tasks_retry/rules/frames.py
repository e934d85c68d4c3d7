"""A traceback's text as frames, and which of them belong to the project."""

from __future__ import annotations

import re
from dataclasses import dataclass

FRAME = re.compile(r'^[ |+-]*File "(?P<file>[^"\n]*)", line (?P<line>\d+)(?:, in (?P<function>[^\n]*))?$', re.MULTILINE)
LIBRARIES = re.compile(
    r"^<|[/\\](?:site|dist)-packages[/\\]|/lib(?:64)?/python\d(?:\.\d+)?/|[/\\]Lib[/\\]|[/\\]django_tasks_retry[/\\]"
)


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: int
    function: str
    source: str = ""

    @property
    def is_project(self) -> bool:
        """False for the standard library, installed packages and the queue itself."""
        return LIBRARIES.search(self.file) is None

    @property
    def short_file(self) -> str:
        """The file within its package: what stays the same from host to host."""
        return "/".join(re.split(r"[/\\]", self.file)[-2:])


def frames_of(traceback: str) -> list[Frame]:
    """Outermost first, as Python prints them."""
    found = list(FRAME.finditer(traceback))
    ends = [match.start() for match in found][1:] + [len(traceback)] * bool(found)
    return [
        Frame(match["file"], int(match["line"][:9]), match["function"] or "", source_in(traceback[match.end() : end]))
        for match, end in zip(found, ends, strict=True)
    ]


def source_in(text: str) -> str:
    """The lines that Python prints below a frame: indented deeper than the word File."""
    lines = text.split("\n")[1:]
    kept = []
    for line in lines:
        if not line.startswith("    "):
            break
        kept.append(line.strip())
    return "\n".join(line for line in kept if line.strip("~^ "))


def innermost_project_frame(frames: list[Frame]) -> Frame | None:
    """Where the project's own code was when it failed; the innermost of all where none is the project's."""
    ours = [frame for frame in frames if frame.is_project]
    return (ours or frames)[-1] if frames else None
