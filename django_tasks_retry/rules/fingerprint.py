"""Which failures are alike: same exception, same place in the project, same message but for ids and numbers."""

from __future__ import annotations

import hashlib
import re

from .frames import frames_of, innermost_project_frame

LOOKED_AT = 400
"""Characters of a message that tell failures apart; what differs further on is detail."""

QUOTED = re.compile(r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`")
NAMES_OF_CODE = re.compile(
    r"\b(?:arguments?|attribute|module named|import name|column|relation|constraint):? "
    r"(?:(?:, | and |, and )?(?P<quote>['\"])[A-Za-z_][\w.]{0,99}(?P=quote))+"
)
"""Quoted words that name something of the program, as Python and PostgreSQL say it: they tell failures apart."""

IDS = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\b[\w.+-]+@[\w-]+\.[\w.-]+|\b0x[0-9a-f]+\b", re.I)
NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")


def general(message: str) -> str:
    """The message without what differs from one call to the next."""
    text = message[:LOOKED_AT]
    kept = [match.span() for match in NAMES_OF_CODE.finditer(text)]
    text = QUOTED.sub(lambda quoted: quoted.group() if is_within(quoted.span(), kept) else "<…>", text)
    for pattern, sign in ((IDS, "<id>"), (NUMBERS, "#")):
        text = pattern.sub(sign, text)
    return " ".join(text.split())


def is_within(part: tuple[int, int], spans: list[tuple[int, int]]) -> bool:
    return any(start <= part[0] and part[1] <= end for start, end in spans)


def fingerprint(exception: str, code: str, message: str, traceback: str) -> str:
    """Sixteen hexadecimal digits."""
    frame = innermost_project_frame(frames_of(traceback))
    place = f"{frame.short_file}:{frame.function}" if frame else ""
    text = "\n".join([exception or code, place, general(message)])
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()
