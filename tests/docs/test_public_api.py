"""The public API changes only when somebody decides so."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from difflib import unified_diff

from tests.docs.pages import DOCS, ROOT
from tests.legs import PAIRS

sys.path.insert(0, str(DOCS))
public_api = importlib.import_module("public_api")
sys.path.remove(str(DOCS))


def test_no_public_name_changes_unannounced():
    recorded = (DOCS / "public_api.txt").read_text(encoding="utf-8").splitlines()
    changed = list(unified_diff(recorded, public_api.public_api().splitlines(), "recorded", "now", n=0, lineterm=""))
    advice = "If this is meant: CHANGELOG.md, docs/reference/stability.rst, then python docs/public_api.py"
    assert not changed, "\n".join([*changed, advice])


def test_the_list_holds_every_kind_of_promise():
    text = public_api.public_api()
    for part in (
        "django_tasks_retry.retry(",
        "django_tasks_retry.models.querysets.TaskManager.enqueue(",
        "Task: id, ",
        "LEASE = 60.0",
        "runworker: --async-slots",
        "tasks cancel: ",
        "django_tasks_due (gauge): queue",
        "task.lease_lost",
        "queue.paused",
        "BAD_ARGUMENTS",
        "django_tasks_retry.E001",
    ):
        assert part in text, part


def test_the_page_names_the_versions_that_the_metadata_names():
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["classifiers"]
    text = (DOCS / "reference" / "stability.rst").read_text(encoding="utf-8")
    pythons = [each.rpartition(" ")[2] for each in metadata if re.search(r"Python :: 3\.\d", each)]
    djangos = [each.rpartition(" ")[2] for each in metadata if re.search(r"Django :: \d", each)]
    assert f"- {', '.join(pythons)}\n" in text
    assert re.findall(r"\d\.\d", text.partition("* - Django")[2].partition("\n     -")[2].partition("\n")[0]) == djangos
    assert {pair.python for pair in PAIRS} == set(pythons)
    assert {pair.django for pair in PAIRS} == set(djangos)
