"""Durations as people type them."""

import pytest

from django_tasks_retry.durations import read_duration

WRITTEN = {"500ms": 0.5, "30s": 30, "45": 45, "1.5m": 90, "6h": 21_600, " 7d ": 604_800}


@pytest.mark.parametrize("text", WRITTEN)
def test_a_duration_is_read_in_its_unit(text):
    assert read_duration(text) == WRITTEN[text]


@pytest.mark.parametrize("text", ["", "0s", "-5m", "5 minutes", "m", "1h30m", "1e3"])
def test_what_is_no_duration_is_answered_with_examples(text):
    with pytest.raises(ValueError, match=r"is not a duration\. Write for example 500ms, 30s, 5m, 6h or 7d\."):
        read_duration(text)
