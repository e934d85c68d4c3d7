"""Published figures: medians of quiet runs, and a mark on what was never measured in quiet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks import __main__ as command
from benchmarks.contenders import OURS
from benchmarks.measures import NOISY, Bench, Figure
from benchmarks.report import DRAIN, medians, rows, verdicts

BENCH: Any = None


def figure(value: float, foreign: float | None, who: str = OURS.name, measure: str = DRAIN) -> Figure:
    return Figure(measure, who, value, "/s", foreign, "1 May 2030")


def test_noisy_runs_count_only_if_none_was_quiet():
    quiet, noisy = [figure(10, 0.0), figure(30, 0.05)], [figure(1, NOISY), figure(2, 0.5)]
    assert medians([*noisy, *quiet]) == {(DRAIN, OURS.name): 20}
    assert medians(noisy) == {(DRAIN, OURS.name): 1.5}


def test_a_star_marks_what_was_never_measured_in_quiet():
    figures = [figure(1, 0.5), figure(2, 0.0), figure(3, 0.5, "other"), figure(4, None, "older")]
    assert rows(figures) == [
        ("Measure", "Unit", "Measured on", OURS.name, "other", "older"),
        (DRAIN, "/s", "1 May 2030", "2", "3*", "4"),
    ]


@pytest.mark.parametrize(("shares", "kept"), [([0.0], 0.0), ([0.3, 0.02], 0.02), ([0.3, 0.4, 0.5], 0.5)])
def test_a_noisy_run_is_repeated_and_the_last_is_marked(monkeypatch, shares, kept):
    class Noise:
        """The shares that others used, one after the other."""

        def __init__(self) -> None:
            self.share = shares[len(runs)]

    def measured(bench: Bench) -> Iterator[Figure]:
        runs.append(bench)
        yield figure(len(runs), None)

    runs: list[Bench] = []
    monkeypatch.setattr(command, "Noise", Noise)
    [last] = command.in_quiet(measured, BENCH)
    assert (len(runs), last.value, last.foreign) == (len(shares), len(shares), kept)


def test_a_missed_aim_says_why():
    told = list(verdicts([figure(100, 0.0), figure(99, 0.0, "pgqueuer"), figure(1, 0.0, "django-tasks-db")]))
    assert [line.split()[0] for line in told] == ["MISSED", "met"]
    assert told[0].endswith("under a fence and triggers.")
