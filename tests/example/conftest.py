from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from django.conf import settings


def server_url(name: str, user: str | None = None) -> str:
    place = settings.DATABASES["postgresql"]
    return f"postgres://{user or place['USER']}:{place['PASSWORD']}@{place['HOST']}:{place['PORT']}/{name}"


@pytest.fixture
def empty_postgresql() -> Iterator[str]:
    """The URL of a database that exists for this test only."""
    name = f"example_{secrets.token_hex(4)}"
    with psycopg.connect(server_url("postgres"), autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {name}")
        yield server_url(name)
        owner.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'example.sqlite3'}"
    return request.getfixturevalue("empty_postgresql")
