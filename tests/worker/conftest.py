from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .harness import Effects, WorkerProcess, ended, environment, place_of

Start = Callable[..., WorkerProcess]


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Effects:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    return Effects(tmp_path / "effects")


@pytest.fixture
def start(committed: str, tmp_path: Path) -> Iterator[Start]:
    """Starts workers on the database of the test: `start("--drain", lease=2.0)`. They end with it."""
    yield from starter(committed, tmp_path)


def starter(alias: str, folder: Path, place: dict[str, str] | None = None) -> Iterator[Start]:
    workers: list[WorkerProcess] = []

    def start_one(*arguments: str, variables: dict[str, str] | None = None, popen: Any = None, **options: Any) -> Any:
        if "--poll" not in arguments:
            arguments = ("--poll", "100ms", *arguments)
        given = {name.upper(): value for name, value in options.items()}
        env = environment(alias, folder, place or place_of(alias), given) | (variables or {})
        workers.append(WorkerProcess(arguments, folder / f"worker{len(workers)}", env, **(popen or {})))
        return workers[-1]

    yield start_one
    for output in ended(workers):
        print(output)  # noqa: T201 - shown with a failure
