"""Metrics in the text format of Prometheus: `scrape()` asks the database, `render()` only writes."""

from __future__ import annotations

from ..taskqueue.operator.snapshot import Snapshot, snapshot
from .exposition import CONTENT_TYPE, written
from .families import families_of


def scrape(backend: str = "default") -> str:
    """The metrics of the backend's database, now."""
    return render(snapshot(backend))


def render(taken: Snapshot) -> str:
    """A snapshot in the text format."""
    return written(families_of(taken))


__all__ = ["CONTENT_TYPE", "render", "scrape"]
