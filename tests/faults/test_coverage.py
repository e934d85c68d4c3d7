"""Every fault has its test, on every database that knows the fault."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from tests.faults.coverage import DOES_NOT_APPLY, FAULTS, ON_POSTGRESQL_ALONE, ROOT, by_fault, collected

DATABASES = ("sqlite", "postgresql")
MODELLED = {
    "worker_killed",
    "out_of_memory",
    "frozen_past_the_lease",
    "interpreter_held",
    "exits_and_interrupts_raised",
    "hard_exits",
    "unprintable_errors",
    "endless_task",
    "leaks",
    "output_closed_or_full",
    "asked_to_stop",
    "told_to_stop_at_once",
    "hang_up",
    "fork_with_an_open_connection",
    "worker_id_used_again",
    "event_loop_blocked",
    "poison",
    "clock_skew",
    "server_clock_jumps",
    "drifting_occurrences",
    "two_schedulers",
    "schedules_in_daylight_saving",
    "thundering_herd",
    "request_cut",
    "reply_cut",
    "ghost_claim",
    "server_restarts",
    "failover",
    "read_only_node",
    "error_codes",
    "black_hole",
    "row_locked_by_vanished_client",
    "session_state_left_by_tasks",
    "pinned_horizon",
    "stale_statistics",
    "wake_ups_lost",
    "pgbouncer",
    "no_connection_left",
    "statement_timeout",
    "disk_full",
    "ids_out_of_order",
    "enqueue_rolled_back",
    "deadlock_between_batches",
    "row_deleted",
    "tables_changed_under_load",
    "database_file_locked",
    "nul_surrogates_nan",
    "data_changed_by_jsonb",
    "nested_too_deep",
    "too_large",
    "function_missing",
    "arguments_that_do_not_fit",
    "odd_exceptions",
}
"""The faults that the product was designed for; the others were found later."""


@pytest.fixture(scope="module")
def tests(request: pytest.FixtureRequest) -> dict[str, list[str]]:
    """Return the tests of each fault; if only some tests run, another process collects the rest."""
    config = request.config
    chosen = config.option.keyword or config.option.markexpr or config.option.deselect
    if chosen or not {Path(path).resolve() for path in config.args} <= {ROOT, ROOT / "tests"}:
        return by_fault(collected())
    return by_fault(item.nodeid for item in request.session.items if item.get_closest_marker("fault"))


def test_the_list_of_faults_is_whole():
    assert {*FAULTS, *DOES_NOT_APPLY} >= MODELLED
    assert ON_POSTGRESQL_ALONE.keys() < set(FAULTS)


def test_the_name_of_a_fault_chooses_that_fault_alone():
    # -k matches parts of ids: the start of another name would choose both faults, a database's name the wrong tests.
    assert [pair for pair in permutations(FAULTS, 2) if pair[1].startswith(pair[0])] == []
    assert [fault for fault in FAULTS for database in DATABASES if database in fault] == []


def test_every_fault_that_applies_is_shown_and_no_other(tests):
    assert sorted(tests) == sorted(FAULTS)


def test_a_fault_that_both_databases_know_is_shown_on_both(tests):
    both = set(FAULTS) - ON_POSTGRESQL_ALONE.keys()
    for database in DATABASES:
        assert {fault for fault in both if not any(database in test for test in tests[fault])} == set()
