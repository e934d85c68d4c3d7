"""Find sentences that a busy reader has to read twice: `python tests/docs/prose.py [--all] [--count] [FOLDER]`.

Files in `prose_allowed.txt` may still have as many as it says, and are shown with `--all`. Its numbers may only fall.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 35
ROOMS = ("django_tasks_retry", "docs", "example_project", "benchmarks", "tests")
LEFT_OUT = {"_build", "migrations", "prose.py", "test_prose.py"}
TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")
CLAUSES = r"\bwhere (?:no|none|nothing|nobody|neither|any|several|there (?:is|are|was|were))\b"
ANYWHERE = {
    "where for if": rf"(?i)\b(?:if|only|except|unless|even|but|none|true|false|not|or) where\b|{CLAUSES}",
    "by nobody": r"(?i)\bby nobody\b",
}
PATTERNS = {**ANYWHERE, "headless": r"^(?:What|Who|Whoever|Whatever|Of|Where|None where)\b"}
SKIPPED = re.compile(r"\s*\.\. (?!list-table|note|warning|versionadded)\S.*")
ITEM = re.compile(r"^\s*(?:\* - |- |\* |#\. |\d+\. |\|)")
UNDERLINE = re.compile(r"([=\-~^\"])\1{2,}$")
MARKUP = (
    (r"``.*?``|(?<!`)`[^`\s][^`]*`_?(?!`)", "Code"),
    (r":\w+:Code", "Code"),
    (r"\[([^\]]*)\]\([^)]*\)", r"\1"),
    (r"[*|]+", " "),
)


def files(root: Path) -> Iterator[Path]:
    found = [root / name for name in TOP] + [path for room in ROOMS for path in sorted((root / room).rglob("*.*"))]
    yield from (path for path in found if path.suffix in LOOK and path.exists() and not LEFT_OUT & set(path.parts))


def sentences(text: str) -> list[str]:
    for pattern, replacement in MARKUP:
        text = re.sub(pattern, replacement, text, flags=re.DOTALL)
    return [" ".join(part.split()) for part in re.split(r"(?<=[.!?])[\"')]*\s+(?=[A-Z`\"(])", text) if part.strip()]


def blocks(page: str) -> Iterator[str]:
    """Yield the paragraphs, items and cells of a page in reStructuredText or Markdown, without code and headings."""
    page = re.sub(r"^```.*?^```$", "", page, flags=re.MULTILINE | re.DOTALL)
    block: list[str] = []
    hidden, margin, in_item = -1, 0, False
    for line in [*page.splitlines(), ""]:
        indent = len(line) - len(line.lstrip())
        if hidden >= 0 and (not line.strip() or indent > hidden):
            continue
        hidden = indent if SKIPPED.match(line) else -1
        heading = re.match(r"#+ |<!--", line) or UNDERLINE.match(line)
        in_item = bool(ITEM.match(line)) or (in_item and bool(line.strip()))
        if indent != margin and not in_item:  # a term and its definition
            yield " ".join(block)
            block = []
        margin = indent
        if not line.strip() or heading or hidden >= 0 or ITEM.match(line) or re.match(r"\s*:[\w-]+:( |$)", line):
            yield "" if UNDERLINE.match(line) else " ".join(block)
            block = []
        if line.strip() and not heading and hidden < 0:
            block += [ITEM.sub("", line).strip()] if not line.startswith("|") else []


def in_page(page: str) -> Iterator[tuple[str, str]]:
    for sentence in (each for block in blocks(page) for each in sentences(block)):
        if len(re.findall(r"\S*\w\S*", sentence)) > MOST_WORDS:
            yield f"over {MOST_WORDS} words", sentence
        if sentence.endswith("."):
            yield from matches(sentence)


def matches(sentence: str) -> Iterator[tuple[str, str]]:
    yield from ((name, sentence) for name, pattern in PATTERNS.items() if re.search(pattern, sentence))


def in_code(source: str) -> Iterator[tuple[str, str]]:
    tree = ast.parse(source)
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for sentence in sentences(node.value):
                found = [] if sentence.endswith("?") else matches(sentence)
                yield from (each for each in found if id(node) in documented or each[0] in ANYWHERE)
    comments = [t.string for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type == tokenize.COMMENT]
    yield from in_comments("\n".join(comments))


def in_comments(text: str) -> Iterator[tuple[str, str]]:
    yield from (each for each in in_sql(text) if each[0] in ANYWHERE)


def in_sql(text: str) -> Iterator[tuple[str, str]]:
    """Yield findings in comments. The first word of a heading is the statement's name: `-- Claim: tasks that …`."""
    lines = re.findall(r"(?m)(?:--|#) ?(?:[A-Z][\w ]*: )?(.*)$", text)
    yield from (each for part in sentences(" ".join(lines)) for each in matches(part))


LOOK = {".py": in_code, ".sql": in_sql, ".rst": in_page, ".md": in_page}


def allowed() -> dict[str, int]:
    lines = Path(__file__).with_name("prose_allowed.txt").read_text(encoding="utf-8").splitlines()
    return {name: int(count) for count, name in map(str.split, lines)}


def report(root: Path) -> dict[str, list[tuple[str, str]]]:
    """Return each file's name with its findings: the pattern and the sentence."""
    found = {
        str(path.relative_to(root)): list(LOOK[path.suffix](path.read_text(encoding="utf-8"))) for path in files(root)
    }
    return {name: each for name, each in found.items() if each}


if __name__ == "__main__":
    words = sys.argv[1:]
    found = report(Path(next((word for word in words if not word.startswith("--")), ROOT)).resolve())
    counts = Counter("/".join(Path(name).parts[:2]) for name, each in found.items() for _ in each)
    by_pattern = Counter(pattern for each in found.values() for pattern, _ in each)
    most = {} if {"--all", "--count"} & set(words) else allowed()
    worse = {name: each for name, each in found.items() if len(each) > most.get(name, 0)}
    shown = [f"{name}: {what}: {text}" for name, each in worse.items() for what, text in each]
    if "--count" in words:
        shown = [f"{n:5} {name}" for name, n in [*sorted(counts.items()), *by_pattern.items(), ("all", counts.total())]]
    print("\n".join(shown))  # noqa: T201
    sys.exit(bool(shown) and "--count" not in words)
