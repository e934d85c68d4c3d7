"""The lab's own arithmetic, and that it says why where it cannot be."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from . import __main__ as lab
from .load import LEASE, read
from .programs import Missing, why_not
from .verdict import Books, Outage, longest_gap, outages, past_the_lease


class Written:
    """Records that one host has written."""

    def __init__(self, reach: str, acknowledged: list[float], runs: list[float], folder: Path) -> None:
        self.reach, self.folder, self.host = reach, folder, SimpleNamespace(silences=[])
        self.lines: dict[str, list[float]] = {"acknowledged": acknowledged, "runs": runs, "ticks": []}

    def acknowledged(self) -> Any:
        return self.told("acknowledged")

    def runs(self) -> Any:
        return self.told("runs")

    def ticks(self) -> Any:
        return self.told("ticks")

    def told(self, name: str) -> Any:
        file = self.folder / f"{self.reach}-{name}"
        file.write_text("".join(f"{number} {at}\n" for number, at in enumerate(self.lines[name])) + "99 3")
        return read(file)


def test_the_longest_gap_reaches_to_the_ends_of_what_was_watched():
    assert longest_gap([1.0, 2.0, 5.0], 0.5, 6.0).seconds == 3.0
    assert longest_gap([1.0, 2.0], 0.5, 9.0).seconds == 7.0
    assert longest_gap([], 0.0, 4.0).seconds == 4.0


def test_execution_is_late_by_what_passes_after_the_first_write_by_anybody(tmp_path):
    first = Written("haproxy", [0.1, 10.0, 10.5], [0.2, 12.0, 12.5], tmp_path)
    second = Written("multihost", [0.1, 11.0, 11.5], [0.2, 0.5, 0.9, 1.3], tmp_path)
    assert outages([first, second], 0.0, 13.0)[0] == Outage("haproxy", 9.9, 11.8, 2.0)  # type: ignore[list-item]


def test_what_a_host_does_when_it_has_been_cut_off_for_longer_than_a_lease_is_counted(tmp_path):
    """A line within the lease is none, nor is one after the host was back."""
    cut, back = 100.0, 130.0
    written = Written("multihost", [], [cut + 1.0, cut + LEASE - 0.1, back + 0.1], tmp_path)
    written.host = SimpleNamespace(silences=[(cut, back)])
    assert past_the_lease(written) == []  # type: ignore[arg-type]
    written.lines["ticks"] = [cut + 2.0, cut + LEASE + 1.0, back - 0.1, back + 1.0]
    assert past_the_lease(written) == [cut + LEASE + 1.0, back - 0.1]  # type: ignore[arg-type]


def test_a_line_that_is_still_being_written_is_not_read(tmp_path):
    (tmp_path / "runs").write_text("1 2.5\n2 3")
    assert [line.number for line in read(tmp_path / "runs")] == [1]
    assert read(tmp_path / "none") == []


def test_a_lab_that_cannot_run_fails(monkeypatch, capsys):
    monkeypatch.setattr(lab, "why_not", lambda: "there is no Python")
    monkeypatch.setattr("sys.argv", ["lab"])
    assert lab.main() == lab.CANNOT_RUN
    monkeypatch.setattr(lab, "why_not", lambda: None)
    monkeypatch.setattr(lab.Programs, "fetch", refuse)
    assert lab.main() == lab.CANNOT_RUN
    assert capsys.readouterr().out.count("failed: no failover lab here") == 2


def refuse(programs: object) -> None:
    raise Missing("no network")


@pytest.mark.parametrize("harm", ["acknowledged", "lost", "finished_twice", "ran_past_the_lease"])
def test_a_run_without_tasks_or_with_a_lost_one_fails(harm):
    good = {"acknowledged": 9, "lost": 0, "finished_twice": 0, "ran_twice": 1, "ran_past_the_lease": 0}
    assert lab.tell_books(Books(**good)) == 0
    assert lab.tell_books(Books(**{**good, harm: 0 if harm == "acknowledged" else 1})) == 1


@pytest.mark.skipif(os.getuid() == 0, reason="root may build the lab")
def test_without_root_the_lab_says_what_it_needs():
    assert "root" in str(why_not())
