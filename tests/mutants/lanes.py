"""Bugs about lanes: permits, windows, shares and pauses."""

from __future__ import annotations

from tests.mutants.mutant import PG, UNNAMED, Edit, Mutant

LIMITER, PERMITS, WINDOW = "taskqueue/claim/limiter.py", "taskqueue/sql/count_leases.sql", "rules/lanes/window.py"
STRICT, GRAPHS = "taskqueue/claim/limiter.py", "tests/workflows/test_lanes.py::"
LIMITS, RATES, ORDER = (f"tests/lanes/test_{name}.py::" for name in ("limits", "rates", "order"))
RACES, RULES, CONTROL = "tests/races/test_lanes.py::", "tests/rules/test_lanes.py::", "tests/lanes/test_control.py::"
BREAKER, TRIPS = "taskqueue/control/breaker.py", "tests/lanes/test_breaker.py::"
RACE = RACES + "test_eight_claimers_never_hold_more_leases_of_a_lane_than_its_limit"

LANES = (
    Mutant(
        "the leases of a lane are counted before its lock",
        (
            Edit(
                LIMITER,
                "        locked = lock_limits(labels, self.engine.using)\n",
                "        running = count_running(labels, self.engine.using)\n"
                "        locked = lock_limits(labels, self.engine.using)\n",
            ),
            Edit(LIMITER, "        running = count_permits(locked.keys(), self.engine.using)\n", ""),
        ),
        (RACE,),
        on=PG,
    ),
    Mutant(
        "the row of a lane is not locked",
        (Edit("taskqueue/sql/lock_limits.sql", "FOR NO KEY UPDATE OF s SKIP LOCKED", ""),),
        (RACE,),
        on=PG,
    ),
    Mutant(
        "a permit is counted twice",
        (Edit(PERMITS, "SELECT asked.kind, asked.name, CASE", "SELECT asked.kind, asked.name, 2 * CASE"),),
        (LIMITS + "test_no_more_run_than_the_limit_says",),
        on=PG,
    ),
    Mutant(
        "an expired lease is no permit",
        (Edit(PERMITS, "t.lane > ''", "t.lane > '' AND t.lock_expires_at > django_tasks_retry_now()"),),
        (LIMITS + "test_an_expired_lease_holds_its_permit_until_it_is_taken_back",),
        on=PG,
    ),
    Mutant(
        "tasks of a lane with a rate are claimed ahead",
        (Edit(LIMITER, "min(most, self.at_once) if must_start else most", "most"),),
        (LIMITS + "test_only_what_starts_at_once_is_claimed_from_a_lane_with_a_rate",),
    ),
    Mutant(
        "a window begins anew at its boundary",
        (
            Edit(
                WINDOW,
                "for end, count in recent if end > now - per)",
                "for end, count in recent if end > now // per * per)",
            ),
        ),
        (RULES + "test_no_window_ever_holds_more_starts_than_are_allowed",),
        on=UNNAMED,
    ),
    Mutant(
        "starts are not counted",
        (Edit(LIMITER, "            self.has_started = True\n", ""),),
        (RATES + "test_so_many_start_and_the_next_when_the_window_has_passed",),
    ),
    Mutant(
        "strict order forgets what was begun",
        (Edit(STRICT, "    begun = begun_in(of.lane, using)\n", "    begun: Task | None = None\n"),),
        (ORDER + "test_the_head_blocks_while_it_waits_for_its_retry",),
    ),
    Mutant(
        "in strict order members wait for the one that waits for them",
        (Edit(STRICT, "        batch = awaited_by(begun)\n", "        batch = None\n"),),
        (GRAPHS + "test_in_strict_order_members_go_before_the_one_that_waits_for_them",),
    ),
    Mutant(
        "strict order is open while one waits for its members",
        (Edit(STRICT, "        in_line = in_line.filter(batch=batch)\n", ""),),
        (GRAPHS + "test_in_strict_order_nothing_else_begins_while_one_waits_for_its_members",),
    ),
    Mutant(
        "what ended while a lane rested is taken for its probe",
        (
            Edit(
                BREAKER,
                '"probe_from": [before.completed, before.failures]',
                '"probe_from": [0, 0]',
            ),
        ),
        (TRIPS + "test_what_ended_while_a_lane_rested_is_not_taken_for_its_probe",),
    ),
    Mutant(
        "a lane trips by how attempts of other lanes ended",
        (
            Edit(
                BREAKER,
                "filter(lane=state.name, minute__gte=begin)\n    return",
                "filter(minute__gte=begin)\n    return",
            ),
        ),
        (TRIPS + "test_a_lane_trips_and_another_lane_of_the_same_function_goes_on",),
    ),
    Mutant(
        "who took all that a look found rests",
        (Edit("taskqueue/claim/cursor.py", "(sees_some and self.gained > 0) or ", ""),),
        ("tests/lanes/test_fairness.py::test_who_took_all_that_a_slow_look_found_looks_again_at_once",),
        on=PG,
    ),
    Mutant(
        "a lane with a row is claimed from without its lock",
        (
            Edit("taskqueue/sql/claim.sql", "WHERE s.kind = 'queue' AND", "WHERE FALSE AND"),
            Edit("taskqueue/sql/claim_keyed.sql", "WHERE s.kind = 'lane' AND", "WHERE FALSE AND"),
            Edit(
                "taskqueue/engines/sqlite_leases.py",
                "        unheld = rows - set(terms.held)\n",
                "        unheld = set()\n",
            ),
        ),
        (CONTROL + "test_a_pause_holds_for_a_claimer_that_has_not_looked_since",),
    ),
)
