"""Pydantic's models and structs of msgspec as arguments and results, if they are installed."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from django_tasks_retry.errors import InvalidPayload
from django_tasks_retry.testing import Tasks
from tests.typed.tasks import seen

pytest.importorskip("msgspec")
pytest.importorskip("pydantic")
from tests.typed import libraries
from tests.typed.libraries import Address, Reading, Secret

NOON = datetime(2026, 11, 18, 12, 0, 0, 7, tzinfo=UTC)
ID = UUID("018f3c1e-0000-7000-8000-000000000001")


@pytest.mark.parametrize(
    ("task", "value", "stored"),
    [
        (
            libraries.take_address,
            Address(roadName="Elm", since=NOON, id=ID),
            {"id": str(ID), "since": "2026-11-18T12:00:00.000007Z", "roadName": "Elm"},
        ),
        (
            libraries.take_reading,
            Reading(NOON, Decimal("1.50")),
            {"at": "2026-11-18T12:00:00.000007Z", "value": "1.50"},
        ),
    ],
)
def test_a_model_comes_back_and_so_does_the_result(harness: Tasks, task: Any, value: Any, stored: Any) -> None:
    result = task.enqueue(value)
    assert result.args == [stored]
    harness.run_due()
    assert seen == [value]
    assert task.get_result(result.id).return_value == value


def test_json_for_a_model_is_validated_when_it_is_enqueued(harness: Tasks) -> None:
    with pytest.raises(InvalidPayload, match="does not fit the annotation Address: ValidationError"):
        libraries.take_address.enqueue({"roadName": "Elm"})


def test_a_model_whose_json_loses_something_is_refused(harness: Tasks) -> None:
    with pytest.raises(InvalidPayload, match="its JSON does not give it back"):
        libraries.take_secret.enqueue(Secret(word="x"))
