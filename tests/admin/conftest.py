from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.test import Client
from pytest_django.plugin import blocking_manager_key

from django_tasks_retry import registry
from tests.admin import shared_scene, shop
from tests.conftest import ALIASES

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PERMISSIONS = ("view_task", "view_queue", "view_worker", "view_schedule", "view_task_payload")


@pytest.fixture(autouse=True)
def _shop() -> None:
    registry.discover()
    for each in (shop.send_receipt, shop.import_row, shop.sync_stock, shop.monthly_report, shop.resize_image):
        registry.register(each)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if uses_the_scene(item):
        with item.config.stash[blocking_manager_key].unblock():
            shared_scene.prepare(ALIASES[item.callspec.params["on"]])  # type: ignore[attr-defined]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    yield
    if not uses_the_scene(nextitem):
        with item.config.stash[blocking_manager_key].unblock():
            shared_scene.clear()


def uses_the_scene(item: pytest.Item | None) -> bool:
    return "played" in getattr(item, "fixturenames", ())


@pytest.fixture
def played(database: str) -> dict[str, Any]:
    """The scene's tasks by name, of this database. Tests change them inside their own transaction."""
    return shared_scene.tasks_in(database)


def make_user(name: str = "olga", *, permissions: tuple[str, ...] | None = None, password: str | None = None) -> Any:
    users = get_user_model().objects
    if permissions is None:
        return users.create_superuser(name, password=password)
    user = users.create_user(name, password=password, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


@pytest.fixture
def operator(database: str) -> Client:
    """A browser session of someone who may do everything."""
    client = Client()
    client.force_login(make_user())
    return client


@pytest.fixture
def session_with(database: str) -> Callable[..., Client]:
    """A browser session of a member of the staff with these permissions only."""

    def log_in(*permissions: str) -> Client:
        client = Client()
        client.force_login(make_user("staff", permissions=permissions))
        return client

    return log_in


def chromium_path() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium. If it is missing the tests are skipped, except in CI."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if chromium_path() is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    # Playwright keeps an event loop in this thread, in which Django would refuse to use a database.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with playwright.sync_playwright() as control:
        launched = control.chromium.launch(executable_path=chromium_path(), args=FLAGS)
        yield launched
        launched.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]
