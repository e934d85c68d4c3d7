"""The catalogues are whole: every string of the code is translated, with its placeholders, and compiled."""

from __future__ import annotations

import ast
import gettext
import re
from collections.abc import Iterator
from pathlib import Path

import polib
import pytest
from django.utils import translation
from django.utils.translation.template import templatize

import django_tasks_retry

PACKAGE = Path(django_tasks_retry.__file__).parent
LANGUAGES = ("de", "es", "fr", "ja", "pt_BR")
MARKS = {"_", "gettext", "gettext_lazy", "ngettext", "ngettext_lazy", "pgettext", "pgettext_lazy", "npgettext"}
PLACEHOLDER = re.compile(r"%\(\w+\)[sd]|%[sd]|\{\w*\}")


def catalogue(language: str) -> polib.POFile:
    return polib.pofile(str(PACKAGE / "locale" / language / "LC_MESSAGES" / "django.po"))


def strings(source: str) -> Iterator[str]:
    """Return the texts that are marked in a piece of Python, without contexts and plurals."""
    for node in ast.walk(ast.parse(source)):
        name = getattr(node, "func", None)
        mark = getattr(name, "attr", getattr(name, "id", ""))
        if isinstance(node, ast.Call) and mark in MARKS:
            text = node.args[1] if mark.startswith(("pgettext", "npgettext")) else node.args[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value


def strings_of_template(text: str) -> Iterator[str]:
    for call in re.finditer(r"(?<!\w)n?gettext\(.*?\)(?=\s|$)", templatize(text), re.DOTALL):
        try:
            yield from strings(call[0])
        except SyntaxError:
            continue


@pytest.fixture(scope="module")
def used() -> set[str]:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if "migrations" not in path.parts:
            found.update(strings(path.read_text(encoding="utf-8")))
    for path in (PACKAGE / "templates").rglob("*.html"):
        found.update(strings_of_template(path.read_text(encoding="utf-8")))
    return found


def test_the_strings_are_found(used):
    assert len(used) > 500
    assert {"Pending", "Retry"} <= used


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_string_is_translated(language, used):
    known = {entry.msgid for entry in catalogue(language)}
    assert sorted(used - known) == []
    assert [entry.msgid for entry in catalogue(language) if not entry.translated() or entry.fuzzy] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_translations_keep_the_placeholders(language):
    for entry in catalogue(language):
        asked = set(PLACEHOLDER.findall(entry.msgid)) | set(PLACEHOLDER.findall(entry.msgid_plural))
        for text in entry.msgstr_plural.values() or [entry.msgstr]:
            assert set(PLACEHOLDER.findall(text)) == asked or entry.msgid_plural, entry.msgid
            assert set(PLACEHOLDER.findall(text)) <= asked, entry.msgid


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_plural_has_as_many_forms_as_the_language(language):
    forms = re.search(r"nplurals=(\d)", catalogue(language).metadata["Plural-Forms"])
    assert forms is not None
    counts = {entry.msgid: len(entry.msgstr_plural) for entry in catalogue(language) if entry.msgid_plural}
    assert {text: count for text, count in counts.items() if count != int(forms[1])} == {}


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_shipped_is_what_was_translated(language):
    compiled = PACKAGE / "locale" / language / "LC_MESSAGES" / "django.mo"
    with compiled.open("rb") as file:
        shipped = gettext.GNUTranslations(file)
    for entry in catalogue(language):
        if entry.msgctxt:
            assert shipped.pgettext(entry.msgctxt, entry.msgid) == entry.msgstr
        elif not entry.msgid_plural:
            assert shipped.gettext(entry.msgid) == entry.msgstr


@pytest.mark.parametrize("language", ["de", "es", "fr", "ja", "pt-br"])
def test_the_console_speaks_the_language_of_the_project(language, operator, settings):
    settings.LANGUAGE_CODE = language
    with translation.override(language):
        title = translation.gettext("Overview")
    assert title != "Overview"
    with translation.override(language):
        assert title in operator.get("/admin/django_tasks_retry/overview/").content.decode()
