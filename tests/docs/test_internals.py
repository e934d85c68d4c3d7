"""The maintainers' page is true: every file, message and worker module it names exists, and none is left out."""

from __future__ import annotations

import re

from django_tasks_retry.worker.shared import messages
from tests.docs.pages import DOCS, ROOT

PACKAGE = ROOT / "django_tasks_retry"
TEXT = (DOCS / "internals.rst").read_text()
NAMED = set(re.findall(r"``([a-z_]+(?:/[a-z_]+)*(?:\.py|/))``", TEXT))


def exists(name: str) -> bool:
    return any((room / name).exists() for room in (PACKAGE, PACKAGE / "worker"))


def test_every_file_and_folder_that_it_names_exists():
    assert NAMED
    assert not [name for name in NAMED if not exists(name)]


def test_no_module_of_the_worker_is_left_out():
    modules = {
        f"{room}/{file.name}"
        for room in ("supervisor", "child", "shared")
        for file in (PACKAGE / "worker" / room).glob("*.py")
        if file.name != "__init__.py"
    }
    assert not sorted(modules - NAMED)


def test_every_message_between_the_processes_is_listed():
    assert not [name for name in messages.KINDS if f"``{name}``" not in TEXT]


def test_no_room_has_more_than_about_a_dozen_modules():
    rooms = {file.parent for file in PACKAGE.rglob("*.py") if "migrations" not in file.parts}
    crowded = {
        str(room.relative_to(ROOT)): count
        for room in rooms
        if (count := len([file for file in room.glob("*.py") if file.name != "__init__.py"])) > 16
    }
    assert not crowded
