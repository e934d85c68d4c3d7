"""Texts without secrets. A text is read once, token by token, so that its cost grows with its length and no faster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from django.views.debug import SafeExceptionReporterFilter

from .secret_names import DESCRIBES_SECRET, SECRET_HEADER, is_secret_name

HIDDEN = SafeExceptionReporterFilter.cleansed_substitute
MAX_TEXT = 200_000
"""Characters that are read; what lies beyond is left out, not shown unread."""

# No alternative can match less than it did at first, so that none is ever tried twice.
TOKENS = re.compile(
    r"(?P<word>[\w-]+)|(?P<space>[ \t]+)|(?P<line>[\r\n]+)|(?P<backslashes>\\+)|(?P<quote>[\"'`])"
    r"|(?P<sign>=>|:=|[=:])|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<stop>[,;<>|])|(?P<ampersand>&)|(?P<other>.)",
    re.DOTALL,
)
BYTES_PREFIX = re.compile(r"(?i)[bruf]{1,2}")
SCHEME = re.compile(r"(?i)bearer|basic")
ESCAPED_BLANKS = {"n", "r", "t"}
ENDS_PLAIN = {"stop", "close", "quote"}
CREDENTIAL = re.compile(r"(?=.*\d)[\w.~+/=-]{6,}|[\w.~+/=-]{16,}")


class Token(NamedTuple):
    kind: str
    text: str


END = Token("end", "")


def redact_text(text: str) -> str:
    """The text, with stars for the values of what is named or written like a secret."""
    return Redaction(text[:MAX_TEXT]).redacted()


class Redaction:
    """One pass over a text. `place` only moves forward: whatever was looked at for a value is part of that value."""

    def __init__(self, text: str) -> None:
        self.tokens = [Token(match.lastgroup or "", match.group()) for match in TOKENS.finditer(text)]
        self.place = 0
        self.steps = 0

    def redacted(self) -> str:
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        while (token := self.take()) is not END:
            yield token.text
            if token.kind == "word":
                yield from self.after_word(token.text)
            elif token.text == "/" and self.peek().text == "/":
                yield self.take().text
                yield from self.after_slashes()

    def take(self) -> Token:
        token = self.peek()
        self.place += 1
        self.steps += 1
        return token

    def peek(self, ahead: int = 0) -> Token:
        place = self.place + ahead
        return self.tokens[place] if place < len(self.tokens) else END

    def take_while(self, wanted: Callable[[Token], bool]) -> str:
        taken = []
        while self.peek() is not END and wanted(self.peek()):
            taken.append(self.take().text)
        return "".join(taken)

    # What may follow a name

    def after_word(self, word: str) -> Iterator[str]:
        if SCHEME.fullmatch(word):
            yield from self.after_scheme()
        elif is_secret_name(word):
            yield from self.after_name(word)

    def after_scheme(self) -> Iterator[str]:
        """`Bearer eyJ…` without a name before it; but not "Basic authentication"."""
        yield self.take_while(is_blank)
        value = self.pass_plain()
        is_cut = value and self.peek() is END
        yield HIDDEN if is_cut or CREDENTIAL.fullmatch(value) else value

    def after_name(self, name: str) -> Iterator[str]:
        """`name=…`, `"name": …`, `('name', …)`, `--name …`, `name '…'`: where a value comes, it is hidden."""
        quote = self.take_while(is_quoting)
        blank = self.take_while(is_blank)
        yield quote + blank
        if self.peek().kind == "sign" or (quote and self.peek().text == ","):
            yield from self.after_sign(name)
            yield self.take_while(is_blank)
            if self.peek().text == "=":  # it was the type: `password: str = "…"`
                yield from self.after_sign(name)
        elif blank and (name.startswith("-") or (DESCRIBES_SECRET.fullmatch(name) and is_quoting(self.peek()))):
            yield self.value_of(name)

    def after_sign(self, name: str) -> Iterator[str]:
        yield self.take_while(is_sign_or_comma)
        yield self.take_while(is_blank_or_line)
        while self.peek().kind == "backslashes" and self.peek(1).text in ESCAPED_BLANKS:
            yield self.take().text + self.take().text + self.take_while(is_blank_or_line)
        yield self.value_of(name)

    def after_slashes(self) -> Iterator[str]:
        """`//user:password@host`: all before the last @ is hidden but the user's name."""
        run = self.take_while(is_authority)
        before, at, host = run.rpartition("@")
        user, colon, _password = before.partition(":")
        yield (f"{user}:{HIDDEN}@{host}" if colon else f"{HIDDEN}@{host}") if at else run

    # The value

    def value_of(self, name: str) -> str:
        """Passes the value, and says stars for it; nothing where there is none."""
        began = self.place
        if not self.pass_quoted() and not self.pass_group():
            self.take_while(is_on_line) if SECRET_HEADER.search(name) else self.pass_plain()
        return HIDDEN if self.place > began else ""

    def pass_plain(self) -> str:
        """A value without quotes. A comma or a bracket with a letter right behind it is part of it."""
        began = self.place
        while is_plain(self.peek()) or (self.peek().kind in ENDS_PLAIN and self.peek(1).kind == "word"):
            self.take()
        return "".join(token.text for token in self.tokens[began : self.place])

    def pass_quoted(self) -> bool:
        """`'…'`, `b'…'`, `\\"…\\"`. What is never closed ends with its line."""
        if self.peek().kind == "word" and BYTES_PREFIX.fullmatch(self.peek().text) and self.peek(1).kind == "quote":
            self.take()
        depth = len(self.take().text) if self.peek().kind == "backslashes" and self.peek(1).kind == "quote" else 0
        if self.peek().kind != "quote":
            return False
        quote = self.take().text
        while is_on_line(self.peek()):
            slashes = len(self.take().text) if self.peek().kind == "backslashes" else 0
            closed = self.peek().text == quote and closes(slashes, depth)
            if is_on_line(self.peek()):
                self.take()
            if closed:
                break
        return True

    def pass_group(self) -> bool:
        """`[…]`, `{…}`, `Name(…)`, with whatever is quoted or nested in them."""
        if self.peek().kind == "word" and self.peek(1).text == "(":
            self.take()
        if self.peek().kind != "open":
            return False
        depth = 0
        while self.peek() is not END:
            if self.peek().kind == "quote" and self.pass_quoted():
                continue
            depth += {"open": 1, "close": -1}.get(self.take().kind, 0)
            if depth == 0:
                break
        return True


def closes(slashes: int, depth: int) -> bool:
    """Whether a quote behind so many backslashes ends a text that began behind `depth` of them.

    `"…\\\\"` may be at its end, or be a text within a text that goes on; too much is hidden rather than too little.
    """
    return slashes <= depth


def is_blank(token: Token) -> bool:
    return token.kind == "space"


def is_blank_or_line(token: Token) -> bool:
    return token.kind in {"space", "line"}


def is_on_line(token: Token) -> bool:
    return token.kind not in {"line", "end"}


def is_quoting(token: Token) -> bool:
    return token.kind in {"quote", "backslashes"}


def is_sign_or_comma(token: Token) -> bool:
    return token.kind == "sign" or token.text == ","


def is_plain(token: Token) -> bool:
    """Part of a value that stands without quotes."""
    return token.kind in {"word", "sign", "other", "backslashes", "open"}


def is_authority(token: Token) -> bool:
    return token.kind in {"word", "sign", "other", "stop", "open", "close", "ampersand"} and token.text not in "/?#<>"
