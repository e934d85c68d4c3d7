"""In a language of brackets: what stands outside of them cannot be translated."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

import pytest
from django.utils import translation

from django_tasks_retry import registry
from tests.admin import scene

BASE = "/admin/django_tasks_retry"
WORDS = """
default emails reports bulk olga on call deploy script wrong image example web mail provider is down INC worker queue
builtins shop tasks com customer articles warehouse row not an IBAN connection to lost after bytes MailServerDown
ValueError api_token order_id email deliver console py late south north code nightly stock
"""
DATA = frozenset(re.findall(r"\w+", WORDS))
"""Words that come from rows, not from us."""


class Texts(HTMLParser):
    """The texts of a page's main part, without code, times and what is not shown."""

    QUIET = {"code", "pre", "time", "script", "select"}

    def __init__(self) -> None:
        super().__init__()
        self.depth = self.quiet = 0
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if dict(attrs).get("id") == "content-main":
            self.depth = 1
        self.quiet += tag in self.QUIET

    def handle_endtag(self, tag: str) -> None:
        self.quiet -= tag in self.QUIET
        if tag == "main":
            self.depth = 0

    def handle_data(self, data: str) -> None:
        if self.depth and not self.quiet:
            self.found.append(data)


@pytest.fixture
def _brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    translation.gettext("load")
    for name in ("gettext", "ngettext", "pgettext", "npgettext"):
        real = getattr(translation._trans, name)
        monkeypatch.setattr(translation._trans, name, lambda *said, real=real: f"⟦{real(*said)}⟧")


def outside(page: str) -> set[str]:
    parser = Texts()
    parser.feed(page)
    text = html.unescape(" ".join(parser.found))
    while (shorter := re.sub(r"⟦[^⟦⟧]*⟧", " ", text)) != text:
        text = shorter
    functions = {path.rpartition(".")[2] for path in registry.known_paths()}
    return {word for word in re.findall(r"[A-Za-z_]\w+", text) if word not in DATA | functions}


@pytest.mark.usefixtures("_brackets")
def test_every_text_of_every_page_can_be_translated(database, operator):
    played = scene.play(database)
    played["success"].retry(by="tests", reason="INC")
    urls = [
        "overview",
        "task",
        "failuregroup",
        "queue",
        "worker",
        "schedule",
        "schedule/nightly/change",
        "schedule/add",
    ]
    urls += [f"task/{task.pk}/change" for task in played.values()]
    played["failed"].refresh_from_db()
    urls.append(f"failuregroup/{played['failed'].fingerprint}")
    for url in urls:
        left = outside(operator.get(f"{BASE}/{url}/").content.decode())
        assert not {word for word in left if not re.fullmatch(r"[a-f][0-9a-f]+", word)}, url


@pytest.mark.usefixtures("_brackets")
def test_the_confirmation_can_be_translated(database, operator):
    scene.play(database)
    asked = operator.post(f"{BASE}/task/?status=failed", {"action": "retry_selected", "select_across": "1"})
    assert outside(asked.content.decode()) <= {"failed"}


def test_a_word_of_ours_outside_the_brackets_is_found():
    assert outside('<main><div id="content-main"><p>⟦fine ⟦inner⟧⟧ forgotten</p></div></main>') == {"forgotten"}
