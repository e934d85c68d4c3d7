"""Which names are those of secrets. Django's own list, and what people call theirs besides."""

from __future__ import annotations

import re

MAX_NAME = 80
"""Longer words are not names."""

SECRET_NAME = re.compile(
    r"(?i)(?<![a-z])api|api(?![a-z])|auth(?!or(?!i))|token|(?<!mon)(?<!tur)key(?!word|board|note|frame)|secret"
    r"|pass(?:w|phrase|code|key|[_-]|$|\d)|pwd|psw|signature|(?<![a-z])sig(?![a-z])|cookie|credential"
    r"|session[_-]?(?:id)?$|jwt|bearer|(?<![a-z])otp(?![a-z])|connection[_-]?string"
)
EXCEPTION = re.compile(r"(?:Error|Exception|Warning|Expired|Denied|Missing|Invalid)$")
SECRET_HEADER = re.compile(r"(?i)authorization|cookie")
"""Their values are whole lines: `Authorization: Digest username="…", response="…"`."""

DESCRIBES_SECRET = re.compile(r"(?i)password|passwd|passphrase|secret|token|credentials?")
"""Words that a text puts before a quoted secret: the password 'hunter2'."""


def is_secret_name(name: str) -> bool:
    """False for names of exceptions: what a KeyError names is no secret."""
    return len(name) <= MAX_NAME and SECRET_NAME.search(name) is not None and EXCEPTION.search(name) is None
