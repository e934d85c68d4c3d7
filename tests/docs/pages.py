"""The documentation's pages, and the snippets in them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"

BLOCK = re.compile(
    r"^\.\. code-block:: (?P<language>\w+)\n(?P<options>(?:   :\w+:.*\n)*)\n(?P<body>(?:(?:   .*)?\n)+)", re.MULTILINE
)
FENCE = re.compile(r"^```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    language: str
    text: str
    caption: str = ""


def pages() -> list[Path]:
    found = [path for path in DOCS.rglob("*.rst") if "generated" not in path.parts and "_build" not in path.parts]
    return sorted(found)


def name_of(page: Path) -> str:
    return str(page.relative_to(DOCS).with_suffix(""))


def snippets(page: Path, *, core_has_tasks: bool = django.VERSION >= (6, 0)) -> Iterator[Snippet]:
    """In the order of the page, in the words of the Django that is meant: by default the one that is installed."""
    for snippet in snippets_as_written(page):
        yield snippet if core_has_tasks else replace(snippet, text=worded_for_backport(snippet.text))


def snippets_as_written(page: Path) -> Iterator[Snippet]:
    text = page.read_text(encoding="utf-8") + "\n"
    if page.suffix == ".md":
        for match in FENCE.finditer(text):
            yield Snippet(match["language"], match["body"])
        return
    for match in BLOCK.finditer(text):
        caption = re.search(r":caption: (.+)", match["options"])
        yield Snippet(match["language"], textwrap.dedent(match["body"]).strip() + "\n", caption[1] if caption else "")


def titled(snippet: Snippet) -> list[Snippet]:
    """A block of several files, each under a comment with its name."""
    parts = re.split(r"^# ([\w/]+\.py)\b.*\n", snippet.text, flags=re.MULTILINE)
    return [Snippet("python", text, name) for name, text in zip(parts[1::2], parts[2::2], strict=True)]


def worded_for_backport(code: str) -> str:
    """Before Django 6 the framework is the backport's, as the documentation says."""
    return code.replace("from django.tasks", "from django_tasks")


def documented() -> str:
    """All that the documentation says, generated parts included."""
    return "\n".join(
        path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.rst")) if "_build" not in path.parts
    )
