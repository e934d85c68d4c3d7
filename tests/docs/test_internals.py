"""The maintainers' page is true: every file, message and worker module it names exists, and none is left out."""

from __future__ import annotations

import re
from dataclasses import fields

from django_tasks_retry.taskqueue.claim.tuning import ClaimTuning
from django_tasks_retry.worker.shared import messages
from tests.docs.pages import DOCS, ROOT

PACKAGE = ROOT / "django_tasks_retry"
ROOMS = (PACKAGE, PACKAGE / "taskqueue", PACKAGE / "worker", PACKAGE / "worker" / "supervisor")
TEXT = (DOCS / "internals.rst").read_text(encoding="utf-8")
NAMED = set(re.findall(r"``([a-z_]+(?:/[a-z_]+)*(?:\.py|/))``", TEXT))


def exists(name: str) -> bool:
    return any((room / name).exists() for room in ROOMS)


def test_every_file_and_folder_that_it_names_exists():
    assert NAMED
    assert not [name for name in NAMED if not exists(name)]


def test_no_module_of_the_worker_is_left_out():
    modules = {file for file in (PACKAGE / "worker").glob("*/**/*.py") if file.name != "__init__.py"}
    assert not sorted(modules - {room / name for room in ROOMS for name in NAMED})


def test_no_room_and_no_module_of_the_service_layer_is_left_out():
    files = (PACKAGE / "taskqueue").glob("**/[!_]*.py")
    modules = {str(file.relative_to(PACKAGE)) for file in files if file.parent.name in {"taskqueue", "claim", "lanes"}}
    rooms = {f"taskqueue/{file.parent.name}/" for file in (PACKAGE / "taskqueue").glob("*/__init__.py")}
    assert not sorted((modules | rooms) - NAMED)


def test_every_message_between_the_processes_is_listed():
    assert not [name for name in messages.KINDS if f"``{name}``" not in TEXT]


def test_every_number_that_tunes_claims_is_on_the_page_with_its_reason():
    table = (DOCS / "generated" / "claim_tuning.rst").read_text(encoding="utf-8")
    assert ".. include:: generated/claim_tuning.rst" in TEXT
    assert not [each.name for each in fields(ClaimTuning) if f"``{each.name}``" not in table]
    assert all(each.metadata["reason"].endswith(".") for each in fields(ClaimTuning))


def test_no_room_has_more_than_a_dozen_modules():
    rooms = {file.parent for file in PACKAGE.rglob("*.py") if "migrations" not in file.parts}
    rooms.remove(PACKAGE)  # holds the modules that users import and Django looks for by name
    crowded = {
        str(room.relative_to(ROOT)): count
        for room in rooms
        if (count := len([file for file in room.glob("*.py") if file.name != "__init__.py"])) > 12
    }
    assert not crowded
