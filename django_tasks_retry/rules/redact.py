"""The one redaction of texts: console, command line, mails, traces, error reports and stored logs all use it.

Nobody sees a secret, whatever their permissions.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from .secrets import HIDDEN, as_read, hide_forms, is_secret_name

SECRET_HEADER = re.compile(r"(?i)authorization|cookie")
"""Headers whose values are whole lines: `Authorization: Digest username="…", response="…"`."""

DESCRIBES_SECRET = re.compile(r"(?i)password|passwd|passphrase|secret|token|credentials?|pin")
"""Words that a text puts before a quoted secret: the password 'hunter2'."""

LINKS = {"is", "was", "has", "been", "set", "reset", "changed", "to"}
"""Words between the two: the password was set to hunter2."""

MAX_TEXT = 200_000  # characters that are read; the rest is left out, not shown unread
MAX_DEPTH = 30
MAX_ITEMS = 1000
"""Items of a list or a mapping that are shown. The rest, and anything deeper than MAX_DEPTH, is left out."""

NAMING_KEYS = ("name", "key", "header", "field", "k")
"""Keys whose value names a sibling: {"name": "password", "value": …}."""

AROUND_NAMES = " \"'\\=:"

TRIGGER = re.compile(
    r"(?i)api|auth|token|key|secret|pass|pwd|psw|sig|cookie|cred|sess|jwt|bearer|basic|otp|connection|//|pin|pw|mfa|2fa"
    r"|cv[cv]|mnemonic|phrase|kennwort|contraseñ|senha|парол|パスワード|暗証|密[码碼]"
)
"""Begins, or stands within, everything that may be followed by a secret. Text without it is copied unread:
a traceback of 3,000 characters takes a tenth of the time."""

# No alternative can match less than it did at first, so that none is ever tried twice.
TOKENS = re.compile(
    r"(?P<arrow>->)|(?P<word>[\w-]+)|(?P<space>[ \t]+)|(?P<line>[\r\n]+)|(?P<backslashes>\\+)"
    r"|(?P<quote>\"{3}|'{3}|[\"'`])|(?P<sign>=>|:=|[=:])|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<stop>[,;<>|])|(?P<ampersand>&)|(?P<other>.)",
    re.DOTALL,
)
WORD_CHARACTER = re.compile(r"[\w-]")
BYTES_PREFIX = re.compile(r"(?i)[bruf]{1,2}")
SCHEME = re.compile(r"(?i)bearer|basic")
ESCAPED_BLANKS = {"n", "r", "t"}
BLOCK = {"|", ">", "-"}  # signs before a value in YAML
BLANK, BLANK_OR_LINE, QUOTING = {"space"}, {"space", "line"}, {"quote", "backslashes"}
ENDS_PLAIN = {"stop", "close", "quote"}
CREDENTIAL = re.compile(r"(?=.*\d)[\w.~+/=-]{6,}|[\w.~+/=-]{16,}")
MIXED = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[\w.~+/=!@#$^*-]{6,}")
"""Letters and digits: a secret that a sentence ends with, and not the next word of a sentence."""

PERCENT_SIGN = re.compile(r"(?i)(?:25)*(?:3[ad]|2[27])")
""" = : \" and ' as they are written in URLs, behind the percent sign."""


class Token(NamedTuple):
    kind: str
    text: str


END = Token("end", "")


def redact_text(text: str) -> str:
    """Return the text with stars for values that are named or written like a secret."""
    text = text[:MAX_TEXT]
    if (plain := as_read(text)) != text and (shown := redact_plain(plain)) != plain:
        return shown
    return redact_plain(text)


def redact_plain(text: str) -> str:
    return Redaction(hide_forms(text)).redacted()


Cleanse: TypeAlias = Callable[[str, Any], Any]
"""Returns a value as it may be shown under its name, as Django's SafeExceptionReporterFilter.cleanse_setting does."""


def redact_structure(name: str, value: Any, cleanse: Cleanse = lambda _, value: value, depth: int = 0) -> Any:
    """Return a value without secrets at any depth, by our names and by those of `cleanse`."""
    if not isinstance(value, Mapping | list | tuple):
        cleansed = HIDDEN if is_secret_name(name) else cleanse(name, value)
        return redact_text(cleansed) if isinstance(cleansed, str) else cleansed
    if is_secret_name(name) or cleanse(name, "") != "":
        return HIDDEN
    if depth == MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {key: redact_structure(key, each, cleanse, depth + 1) for key, each in named_items(value)}
    return [redact_structure(key, each, cleanse, depth + 1) for key, each in paired_items(value)]


def named_items(value: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys and values. A value is hidden if a sibling names it as a secret."""
    items = [(str(key), each) for key, each in list(value.items())[:MAX_ITEMS]]
    named = any(key.lower() in NAMING_KEYS and is_secret_name(str(each or "")) for key, each in items)
    for key, each in items:
        yield redact_text(key), HIDDEN if named and key.lower() not in NAMING_KEYS else each


def paired_items(value: list[Any] | tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Yield items without names; but the first of a pair names the second: ["X-Api-Key", …]."""
    is_pair = len(value) == 2 and isinstance(value[0], str | bytes)
    for n, each in enumerate(value[:MAX_ITEMS]):
        yield (str(value[0]) if is_pair and n == 1 else ""), each


class Redaction:
    """One pass over a text. `at` only moves forward: characters that were read as a value are part of that value."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.upcoming: deque[Token] = deque()
        self.steps = 0

    def redacted(self) -> str:
        return "".join(self.pieces())

    def pieces(self) -> Iterator[str]:
        while found := TRIGGER.search(self.text, self.at):
            yield self.skip_to(found.start())
            token = self.take()
            yield token.text
            if token.kind == "word":
                yield from self.after_word(token.text)
            elif token.text == "/" and self.peek().text == "/":
                yield self.take().text
                yield from self.after_slashes()
        yield self.text[self.at :]

    def skip_to(self, trigger: int) -> str:
        """Move to the beginning of the word that holds the trigger, and return the text before it."""
        began, start = self.at, trigger
        while start > began and WORD_CHARACTER.match(self.text, start - 1) and self.text[trigger] != "/":
            start -= 1
        self.at = start
        self.upcoming.clear()
        return self.text[began:start]

    def take(self) -> Token:
        token = self.peek()
        if self.upcoming:
            self.upcoming.popleft()
        self.at += len(token.text)
        self.steps += 1
        return token

    def peek(self, ahead: int = 0) -> Token:
        while len(self.upcoming) <= ahead:
            match = TOKENS.match(self.text, self.at + sum(len(token.text) for token in self.upcoming))
            if match is None:
                return END
            self.upcoming.append(Token(match.lastgroup or "", match.group()))
        return self.upcoming[ahead]

    def take_while(self, wanted: Callable[[Token], bool]) -> str:
        taken = []
        while self.peek() is not END and wanted(self.peek()):
            taken.append(self.take().text)
        return "".join(taken)

    def take_kinds(self, kinds: set[str]) -> str:
        return self.take_while(lambda token: token.kind in kinds)

    # What may follow a name

    def after_word(self, word: str) -> Iterator[str]:
        if SCHEME.fullmatch(word) and (blank := self.take_kinds(BLANK)):
            # The token of `Bearer eyJ…` without a name before it, but not "Basic authentication".
            yield blank + self.credential(CREDENTIAL, is_hidden_if_cut=True)
        elif is_secret_name(word):
            yield from self.after_name(word)

    def credential(self, form: re.Pattern[str], *, is_hidden_if_cut: bool = False) -> str:
        """Return stars for a value of that form. Any other is read like the rest of the text, once more."""
        began = self.at
        value = self.pass_plain()
        if form.fullmatch(value) or (is_hidden_if_cut and value and self.peek() is END):
            return HIDDEN
        self.at = began
        self.upcoming.clear()
        return ""

    def after_name(self, name: str) -> Iterator[str]:
        """Hide the value of `name=…`, `"name": …`, `('name', …)`, `--name …`, `name '…'`, `name is …`, `<name>…`."""
        quote = self.take_kinds(QUOTING)
        # `settings["password"] = …`, and a database's `Key (password)=(…)`
        closed = (
            self.take().text if self.peek().kind == "close" and "sign" in {self.peek(1).kind, self.peek(2).kind} else ""
        )
        blank = self.take_kinds(BLANK)
        yield quote + closed + blank
        if self.peek().kind == "sign" or (quote and self.peek().text == ","):
            began = self.at
            yield from self.after_sign(name)
            if quote and name in NAMING_KEYS and is_secret_name(self.text[began : self.at].strip(AROUND_NAMES)):
                yield HIDDEN if self.take_while(lambda token: token.text != "}") else ""
            yield self.take_kinds(BLANK)
            if self.peek().text == "=":  # it was the type: `password: str = "…"`
                yield from self.after_sign(name)
            elif self.peek().kind == "sign":  # it was the next key: `{"header": "X-Api-Key", "value": "…"}`
                yield self.take().text
                yield HIDDEN if self.take_while(lambda token: token.text != "}") else ""
        elif blank and self.peek().kind == "arrow":
            yield self.take().text
            yield from self.after_sign(name)
        elif blank and (name.startswith("-") or (DESCRIBES_SECRET.fullmatch(name) and self.peek().kind in QUOTING)):
            yield self.value_of(name)
        elif blank and DESCRIBES_SECRET.fullmatch(name):
            yield self.take_while(lambda token: token.text in LINKS or token.kind in {"space", "sign", "quote"})
            yield self.credential(MIXED)
        elif self.peek().text == "%" and PERCENT_SIGN.match(self.peek(1).text):
            yield HIDDEN if self.pass_plain() else ""

    def after_sign(self, name: str) -> Iterator[str]:
        yield self.take_while(lambda token: token.kind == "sign" or token.text == ",")
        yield self.take_while(is_blank_or_block)
        while self.peek().kind == "backslashes" and self.peek(1).text.rstrip("-") in ESCAPED_BLANKS:
            yield self.take().text + self.take().text + self.take_while(is_blank_or_block)
        yield self.value_of(name)

    def after_slashes(self) -> Iterator[str]:
        """Hide all before the last @ of `//user:password@host` but the user's name."""
        run = self.take_while(is_authority)
        before, at, host = run.rpartition("@")
        user, colon, _password = before.partition(":")
        yield (f"{user}:{HIDDEN}@{host}" if colon else f"{HIDDEN}@{host}") if at else run

    # The value

    def value_of(self, name: str) -> str:
        """Pass the value and return stars for it, or nothing if there is none."""
        began = self.at
        if not self.pass_texts() and not self.pass_group():
            self.take_while(is_on_line) if SECRET_HEADER.search(name) else self.pass_plain()
        return HIDDEN if self.at > began else ""

    def pass_plain(self) -> str:
        """Pass a value without quotes. A comma or a bracket with a letter right behind it is part of it."""
        began = self.at
        while is_plain(self.peek()) or (self.peek().kind in ENDS_PLAIN and self.peek(1).kind == "word"):
            self.take()
        return self.text[began : self.at]

    def pass_texts(self) -> bool:
        """Pass a text in quotes, or in three of them, of which two look like an empty text before."""
        start = began = self.at
        while self.pass_quoted() and not WORD_CHARACTER.search(self.text, began, self.at):
            began = self.at
        return self.at > start

    def pass_quoted(self) -> bool:
        """Pass `'…'`, `b'…'` or `\\"…\\"`. A quote that is never closed ends with its line."""
        if self.peek().kind == "word" and BYTES_PREFIX.fullmatch(self.peek().text) and self.peek(1).kind == "quote":
            self.take()
        depth = len(self.take().text) if self.peek().kind == "backslashes" and self.peek(1).kind == "quote" else 0
        if self.peek().kind != "quote":
            return False
        quote = self.take().text
        ends = {"line", "end"} if len(quote) == 1 else {"end"}
        while self.peek().kind not in ends:
            slashes = len(self.take().text) if self.peek().kind == "backslashes" else 0
            closed = self.peek().text == quote and closes(slashes, depth)
            if self.peek().kind not in ends:
                self.take()
            if closed:
                break
        return True

    def pass_group(self) -> bool:
        """Pass `[…]`, `{…}` or `Name(…)`, with everything quoted or nested inside."""
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
    """Return whether a quote behind so many backslashes ends a text that began behind `depth` of them.

    `"…\\\\"` may be at its end, or be a text within a text that goes on; too much is hidden rather than too little.
    """
    return slashes <= depth


def is_on_line(token: Token) -> bool:
    return token.kind not in {"line", "end"}


def is_blank_or_block(token: Token) -> bool:
    return token.kind in BLANK_OR_LINE or token.text in BLOCK


def is_plain(token: Token) -> bool:
    """Return whether the token is part of a value without quotes."""
    return token.kind in {"word", "sign", "other", "backslashes", "open"}


def is_authority(token: Token) -> bool:
    return token.kind in {"word", "sign", "other", "stop", "open", "close", "ampersand"} and token.text not in "/?#<>"
