"""Every word can be translated, and every number is said as people say it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.template import engines
from django.utils import translation

import django_tasks_retry
from django_tasks_retry.display import formatting
from django_tasks_retry.models import Task
from tests import tasks

PACKAGE = Path(django_tasks_retry.__file__).parent
TEMPLATES = sorted((PACKAGE / "templates").rglob("*.html"))
CODE = re.compile(r"<(code|pre)>.*?</\1>", re.S)
WORDS_IN_ATTRIBUTES = re.compile(r'(?:title|aria-label|placeholder|alt)="([^"{]*[A-Za-z][^"{]*)"')


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_hold_no_word_that_cannot_be_translated(template):
    text = template.read_text(encoding="utf-8")
    assert not WORDS_IN_ATTRIBUTES.search(re.sub(r"{%.*?%}", "", text))
    text = re.sub(r"{% block (?:bodyclass|coltype) %}.*?{% endblock %}", "", text)
    bare = re.sub(r"{%\s*blocktranslate.*?endblocktranslate\s*%}", "", text, flags=re.S)
    bare = re.sub(r"{%.*?%}|{{.*?}}", "", bare, flags=re.S)
    bare = re.sub(r"<[^>]*>", " ", CODE.sub("", bare))
    assert re.findall(r"[A-Za-z]{2,}", bare) == []


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_templates_hold_no_inline_style_or_script(template):
    text = template.read_text(encoding="utf-8")
    assert not re.search(r"<style|<script(?![^>]* src=)|\sstyle=|\son\w+=|javascript:", text)
    assert "|safe" not in text
    engines["django"].from_string(text)


def test_code_marks_nothing_as_safe():
    for module in (PACKAGE / "admin").rglob("*.py"):
        text = module.read_text(encoding="utf-8")
        assert "mark_safe" not in text
        assert not re.search(r"SafeString\([^\")]", text), module


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-1, "0 ms"), (0, "0 ms"), (0.0123, "12 ms"), (1.24, "1.2 s"), (9.99, "10.0 s"), (41.4, "41 s"), (60, "1 min"),
        (182, "3 min 2 s"), (3600, "1 h"), (8040, "2 h 14 min"), (86400, "1 d"), (273600, "3 d 4 h"),
    ],
)  # fmt: skip
def test_durations_are_said_in_two_units_at_most(seconds, said):
    assert formatting.format_duration(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0"), (999, "999"), (1000, "1,000"), (1001, "≈ 1,000"), (123_456, "≈ 120,000")]
)
def test_counts_end_at_the_cap(count, said):
    assert formatting.format_capped(count) == said


@pytest.mark.parametrize(("count", "said"), [(9999, "9,999"), (10_240_000, "≈ 10.2 M"), (15_000, "≈ 15.0 k")])
def test_large_numbers_are_said_about(count, said):
    assert formatting.format_approximate(count) == said


def test_what_cannot_be_seen_is_shown_as_an_escape():
    assert formatting.printable("a\u202eb\x00c\u200bd\n") == "a\\u202eb\\u0000c\\u200bd\n"


def test_a_long_text_keeps_its_head_and_its_tail():
    shown = formatting.printable("a" + "x" * 1_000_000 + "z", 300)
    assert shown.startswith("ax")
    assert shown.endswith("xz")
    assert "characters omitted" in shown
    assert len(shown) < 400


def test_drawings_are_the_same_in_every_locale(database, operator):
    Task.objects.enqueue(tasks.noop, max_attempts=3)
    with translation.override("de"):
        shown = operator.get(
            f"/admin/django_tasks_retry/task/{Task.objects.get().pk}/change/", headers={"accept-language": "de"}
        )
    for x, width in re.findall(r'<rect [^>]*x="([^"]*)" width="([^"]*)"', shown.content.decode()):
        assert float(x) >= 0
        assert float(width) >= 0
