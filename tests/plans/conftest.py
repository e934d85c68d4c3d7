from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from tests.plans.crowds import CROWDS, USING, empty
from tests.router import CurrentDatabase


@pytest.fixture(scope="module", params=CROWDS, ids=lambda crowd: crowd.__name__)
def crowd(request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """A misleading table, made once for all tests of a module and gone afterwards, files and statistics included."""
    before, CurrentDatabase.current = CurrentDatabase.current, USING
    with django_db_blocker.unblock(), transaction.atomic(using=USING):
        empty()
        request.param()
        yield
        transaction.set_rollback(True, using=USING)
    CurrentDatabase.current = before
