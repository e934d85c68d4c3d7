"""A pytest plugin that leaves the guard out of the test databases: `pytest -p tests.mutants.unguarded`.

It shows that the tests see a bug by themselves, also where the database would refuse what the bug does.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    from django.apps import apps
    from django.db.models.signals import post_migrate

    sender = apps.get_app_config("django_tasks_retry")
    assert post_migrate.disconnect(sender=sender, dispatch_uid="django_tasks_retry.guard")
