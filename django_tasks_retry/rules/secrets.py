"""How secrets are named, and how those are written that need no name."""

import re
from html import unescape

HIDDEN = "*" * 20  # the stand-in for secrets, as Django's own filter writes it
MAX_NAME = 80  # longer words are not names
SECRET_NAME = re.compile(
    r"(?i)(?<![a-z])api|api(?![a-z])|auth(?!or(?!i))|token|(?<!mon)(?<!tur)key(?!word|board|note|frame)|secret"
    r"|pass(?:w|phrase|code|key|e?$|[_-]|\d)|pwd|psw|signature|(?<![a-z])(?:sig|pin|pw|t?otp|mfa|2fa|cv[cv])(?![a-z])"
    r"|cookie|credential|(?<![a-z])creds?$|session[_-]?(?:id)?$|sessid|jwt|bearer|connection[_-]?string"
    r"|mnemonic|(?:seed|recovery)[_-]?phrase|kennwort|contraseñ|(?<![a-z])senha|парол|パスワード|暗証|密[码碼]"
)
EXCEPTION = re.compile(r"(?:Error|Exception|Warning|Expired|Denied|Missing|Invalid)$")
BY_FORM = re.compile(
    r"(?<![\w-])(?:eyJ[\w-]{5,}+\.[\w-]++(?:\.[\w-]*+)?|A(?:KIA|SIA)[A-Z0-9]{12,}+|gh[opusr]_\w{16,}+|github_pat_\w{16,}+"
    r"|xox[abeprs]-[\w-]{10,}+|[rs]k_(?:live|test)_\w{10,}+|AIza[\w-]{30,}+|sk-(?:proj|ant)-[\w-]{16,}+|ya29\.[\w-]{16,}+"
    r"|(?:glpat-|npm_|hf_|dop_v1_|whsec_|pypi-)[\w-]{16,}+|SG\.[\w-]{16,}+\.[\w-]{16,}+"
    r"|(?:pbkdf2|argon2|bcrypt|scrypt)\w{0,20}\$[\w$.,+/=-]{8,}+)"
    r"|(?<=(?i:identified by ))'[^'\n]*+'?"
    r"|(?<=hooks\.slack\.com/services/)[\w/-]++"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
"""Secrets that need no name: JWTs, private keys, hashes of passwords, and keys that begin as common services' do."""

BY_OPTION = re.compile(
    r"(?<=\s)(-p[ =]?|(?:-u|--user)[ =][^\s:]{1,80}:)(?=[^\s\d]{0,80}\d)(?=[^\sA-Za-z]{0,80}[A-Za-z])"
    r"[\w.~+=!@#$^*-]{6,}+"
)
"""`mysql -phunter2` and `curl -u ann:hunter2`: letters and digits, so neither ports nor folders."""

ELEMENT = re.compile(
    r"(<(?:[\w.-]{1,40}:)?([\w.-]{1,80})(?:\s[^<>]{0,300})?>)(?:<!\[CDATA\[.*?(?:\]\]>|\Z)|[^<\n]++)", re.DOTALL
)

LOOKALIKES: dict[int, int | str | None] = {
    **{code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)},  # full-width forms
    **dict.fromkeys([0xA0, *range(0x2000, 0x200B), 0x202F, 0x3000], " "),
    **dict.fromkeys([0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF], None),
    **dict.fromkeys([0xAB, 0xBB, *range(0x2018, 0x2020)], '"'),  # quotes of books
    **dict.fromkeys(map(ord, "→⇒↦"), "="),
}
"""Characters that people read as others, or not at all."""

ESCAPED_TAB = re.compile(r"(?<=\w)\\t")
ESCAPED = re.compile(r"\\(?:u(?!d[89a-f]|00[01])|x(?=[89a-f]))([\da-f]{4}|[\da-f]{2})", re.IGNORECASE)


def is_secret_name(name: str) -> bool:
    """Return False for names of exceptions: the key that a KeyError names is no secret."""
    name = name if name.isascii() else name.translate(LOOKALIKES)
    return len(name) <= MAX_NAME and SECRET_NAME.search(name) is not None and EXCEPTION.search(name) is None


def as_read(text: str) -> str:
    """Return the text as people read it: without entities, escapes and characters that look like others."""
    if "&" in text:
        text = unescape(text)
    if "\\" in text:
        text = ESCAPED.sub(lambda found: chr(int(found[1], 16)), ESCAPED_TAB.sub(" ", text))
    return text if text.isascii() else text.translate(LOOKALIKES)


def hide_forms(text: str) -> str:
    """Hide what needs no name, and what stands behind an option or in an element."""
    text = BY_OPTION.sub(rf"\1{HIDDEN}", BY_FORM.sub(HIDDEN, text))
    if "<" in text:
        text = ELEMENT.sub(lambda found: found[1] + HIDDEN if is_secret_name(found[2]) else found[0], text)
    return text
