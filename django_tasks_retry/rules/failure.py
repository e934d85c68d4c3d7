"""A failed attempt as bounded text, the frames of its traceback, and the fingerprint by which failures are grouped.

Capturing never fails, whatever the exception does.
"""

import hashlib
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from ..errors import Abort, TaskTimeout, UnstorableResult
from .names import name_of
from .payload import clip, storable

NAME_LIMIT = 1000
MESSAGE_LIMIT = 2048
TRACEBACK_LIMIT = 16 * 1024


class Code(StrEnum):
    EXCEPTION = "EXCEPTION"
    TIMEOUT = "TIMEOUT"
    ABORTED = "ABORTED"
    BAD_ARGUMENTS = "BAD_ARGUMENTS"
    RESULT_NOT_SERIALIZABLE = "RESULT_NOT_SERIALIZABLE"
    LEASE_LOST = "LEASE_LOST"
    CRASHED = "CRASHED"
    UNREADABLE = "UNREADABLE"


PERMANENT = frozenset({Code.ABORTED, Code.BAD_ARGUMENTS, Code.RESULT_NOT_SERIALIZABLE, Code.CRASHED, Code.UNREADABLE})
"""Codes that no retry can fix."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The record of an exception: text only, bounded, storable in either database."""

    message: str
    code: Code
    exception: str
    traceback: str

    def as_dict(self) -> dict[str, str]:
        return {
            "message": self.message, "code": self.code.value, "exception": self.exception, "traceback": self.traceback,
        }  # fmt: skip


LOST = Failure("The worker was lost and no attempt is left.", Code.LEASE_LOST, exception="", traceback="")
"""The failure of a task whose last attempt lost its lease."""


def capture(error: BaseException, code: Code | None = None) -> Failure:
    kind = type(error)
    name = storable(name_of(kind)[:200])
    return Failure(
        message=bounded(lambda: str(error), MESSAGE_LIMIT, f"<{name} whose text cannot be made>"),
        code=code or code_of(error),
        exception=bounded(lambda: f"{kind.__module__}.{kind.__qualname__}"[:200], NAME_LIMIT, name),
        traceback=bounded(lambda: format_traceback(error), TRACEBACK_LIMIT, "<traceback cannot be made>"),
    )


def format_traceback(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def bounded(make: Callable[[], str], limit: int, fallback: str) -> str:
    try:
        text = str.__str__(make())  # which may be of a class of its own, too
        # Cut before escaping: a 50 MB message must not be scanned as a whole.
        cut = max(0, len(text) - limit * 8)
        return clip(storable(text[: limit * 4] + text[-limit * 4 :] if cut else text), limit, cut)
    except BaseException:  # the error's own code runs here and may raise anything
        return fallback


def code_of(error: BaseException) -> Code:
    # By its class: isinstance() would ask the error itself.
    if issubclass(type(error), TaskTimeout):
        return Code.TIMEOUT
    if issubclass(type(error), UnstorableResult):
        return Code.RESULT_NOT_SERIALIZABLE
    return Code.ABORTED if issubclass(type(error), Abort) else Code.EXCEPTION


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
    """Return the innermost frame of the project; if there is none, the innermost of all."""
    ours = [frame for frame in frames if frame.is_project]
    return (ours or frames)[-1] if frames else None


LOOKED_AT = 400  # characters of a message that tell failures apart; what differs further on is detail
QUOTED = re.compile(r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`")
NAMES_OF_CODE = re.compile(
    r"\b(?:arguments?|attribute|module named|import name|column|relation|constraint):? "
    r"(?:(?:, | and |, and )?(?P<quote>['\"])[A-Za-z_][\w.]{0,99}(?P=quote))+"
)
"""Quoted words that name something of the program, as Python and PostgreSQL say it: they tell failures apart."""

IDS = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\b[\w.+-]+@[\w-]+\.[\w.-]+|\b0x[0-9a-f]+\b", re.I)
NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")


def general(message: str) -> str:
    """Return the message without the parts that differ from call to call."""
    text = message[:LOOKED_AT]
    kept = [match.span() for match in NAMES_OF_CODE.finditer(text)]
    text = QUOTED.sub(
        lambda quoted: quoted[0] if any(a <= quoted.start() and quoted.end() <= b for a, b in kept) else "<…>", text
    )
    for pattern, sign in ((IDS, "<id>"), (NUMBERS, "#")):
        text = pattern.sub(sign, text)
    return " ".join(text.split())


def fingerprint(exception: str, code: str, message: str, traceback: str) -> str:
    """Return sixteen hexadecimal digits: failures with the same exception, place in the project and message share them.

    Ids and numbers in the message do not count.
    """
    frame = innermost_project_frame(frames_of(traceback))
    place = f"{frame.short_file}:{frame.function}" if frame else ""
    text = "\n".join([exception or code, place, general(message)])
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()
