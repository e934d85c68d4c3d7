"""Which failures are alike: same exception, same place in the project, same message but for ids and numbers."""

from __future__ import annotations

import hashlib
import re

from .frames import frames_of, innermost_project_frame

LOOKED_AT = 400
"""Characters of a message that tell failures apart; what differs further on is detail."""

QUOTED = re.compile(r"'[^'\n]{0,200}'|\"[^\"\n]{0,200}\"|`[^`\n]{0,200}`")
IDS = re.compile(r"\b(?=[0-9a-f-]*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\b[\w.+-]+@[\w-]+\.[\w.-]+|\b0x[0-9a-f]+\b", re.I)
NUMBERS = re.compile(r"\d+(?:[.,:]\d+)*")


def general(message: str) -> str:
    """The message without what differs from one call to the next."""
    text = message[:LOOKED_AT]
    for pattern, sign in ((QUOTED, "<…>"), (IDS, "<id>"), (NUMBERS, "#")):
        text = pattern.sub(sign, text)
    return " ".join(text.split())


def fingerprint(exception: str, code: str, message: str, traceback: str) -> str:
    """Sixteen hexadecimal digits."""
    frame = innermost_project_frame(frames_of(traceback))
    place = f"{frame.short_file}:{frame.function}" if frame else ""
    text = "\n".join([exception or code, place, general(message)])
    return hashlib.blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()
