"""The documentation's pages, and the snippets in them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
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


def snippets(page: Path) -> Iterator[Snippet]:
    """In the order of the page, in the words of the Django that is installed."""
    text = page.read_text() + "\n"
    if page.suffix == ".md":
        for match in FENCE.finditer(text):
            yield Snippet(match["language"], worded(match["body"]))
        return
    for match in BLOCK.finditer(text):
        caption = re.search(r":caption: (.+)", match["options"])
        yield Snippet(
            match["language"], worded(textwrap.dedent(match["body"]).strip() + "\n"), caption[1] if caption else ""
        )


def worded(code: str) -> str:
    """Before Django 6 the framework is the backport's, as the documentation says."""
    return code if django.VERSION >= (6, 0) else code.replace("from django.tasks", "from django_tasks")


def documented() -> str:
    """All that the documentation says, generated parts included."""
    return "\n".join(path.read_text() for path in sorted(DOCS.rglob("*.rst")) if "_build" not in path.parts)
