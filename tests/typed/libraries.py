"""Tasks whose parameters are Pydantic's models and structs of msgspec, which need not be installed."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from uuid import UUID

import msgspec
import pydantic

from django_tasks_retry.compat import task
from tests.typed.tasks import seen


class Address(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    street: str = pydantic.Field(alias="roadName")
    since: datetime
    id: UUID


class Secret(pydantic.BaseModel):
    word: pydantic.SecretStr


class Reading(msgspec.Struct):
    at: datetime
    value: Decimal


@task
def take_address(value: Address) -> Address:
    seen.append(value)
    return value


@task
def take_secret(value: Secret) -> None:
    seen.append(value)


@task
def take_reading(value: Reading) -> Reading:
    seen.append(value)
    return value
