"""Bugs about who gets a task, about unique keys and about the order of locks."""

from __future__ import annotations

from tests.mutants.mutant import CLAIMS, INTERLEAVED, MODEL, OPERATORS, PG, PROMISES, SQLITE, Edit, Mutant

CONTENTION = "tests/races/test_contention.py::"

CLAIMING = (
    Mutant(
        "no SKIP LOCKED: claimers wait for each other",
        (Edit("taskqueue/sql/claim.sql", "        FOR NO KEY UPDATE SKIP LOCKED\n", "        FOR UPDATE\n"),),
        (CLAIMS + "test_a_claimer_passes_by_what_another_is_claiming_and_does_not_wait",),
        on=PG,
    ),
    Mutant(
        "a claim is turned away without being told",
        (
            Edit(
                "taskqueue/engines/postgresql.py",
                "            return Claimed(turned_away=True)\n",
                "            rows = []\n",
            ),
        ),
        (CONTENTION + "test_a_claimer_without_a_place_takes_nothing_and_knows_when_to_come_back",),
        on=PG,
    ),
    Mutant(
        "places that stay taken keep a claimer away for good",
        (Edit("taskqueue/claim/cursor.py", "            self.insists_until = now + tuning.insist_seconds\n", ""),),
        (CONTENTION + "test_places_that_stay_taken_keep_nobody_away_for_good",),
        on=PG,
    ),
    Mutant(
        "who is turned away takes what is less urgent",
        (Edit("taskqueue/claim/claim.py", "self.turned_away or len(", "len("),),
        (CONTENTION + "test_a_claim_in_parts_ends_where_it_finds_no_place",),
        on=PG,
    ),
    Mutant(
        "a claim keeps its place",
        (Edit("taskqueue/sql/claim.sql", "pg_try_advisory_xact_lock", "pg_try_advisory_lock"),),
        (CONTENTION + "test_a_place_is_free_again_once_the_claim_is_committed",),
        on=PG,
    ),
    Mutant(
        "a worker that was turned away believes that the queue is drained",
        (Edit("worker/child/child.py", "(last_look and not self.intake.is_work_left())", "last_look"),),
        ("tests/worker/test_fleet.py::test_a_worker_that_drains_does_not_take_a_crowd_for_the_end",),
        on=PG,
    ),
    Mutant(
        "no row lock: two claimers get one task",
        (Edit("taskqueue/sql/claim.sql", "        FOR NO KEY UPDATE SKIP LOCKED\n", ""),),
        (INTERLEAVED,),
        guarded=True,
        on=PG,
    ),
    Mutant(
        "a claim overshoots its limit",
        (
            Edit("taskqueue/sql/claim.sql", "    ) AS task\n    LIMIT %(limit)s::int\n", "    ) AS task\n"),
            Edit(
                "taskqueue/engines/sqlite_leases.py",
                "                room = limit - len(rows)\n",
                "                room = limit\n",
            ),
        ),
        (CLAIMS + "test_a_claim_never_takes_more_than_its_limit_from_many_lanes",),
    ),
    Mutant(
        "a task is claimed before its eta",
        (
            Edit("taskqueue/sql/claim.sql", "            AND t.eta <= django_tasks_retry_now()\n", ""),
            Edit("taskqueue/sql/lanes.sql", "AND eta <= django_tasks_retry_now()", ""),
            Edit("models/querysets.py", "return self.pending().filter(eta__lte=Now())", "return self.pending()"),
            Edit("taskqueue/sql/lanes_sqlite.sql", "AND head.eta <= django_tasks_retry_now()", ""),
        ),
        (MODEL,),
        guarded=True,
    ),
    Mutant(
        "urgent tasks wait like all others",
        (
            Edit(
                "taskqueue/claim/fair_share.py",
                "key=lambda each: (-urgency(each, aging), self.served.get(each.lane, 0.0))",
                "key=lambda each: 0",
            ),
        ),
        (PROMISES + "test_the_most_urgent_tasks_are_claimed_first_whatever_their_queue",),
    ),
    Mutant(
        "the floors of the ranges are never forgotten",
        (
            Edit(
                "taskqueue/claim/claim.py",
                "if memory.refresh(engine, backend) else []",
                "if memory.cursor.ranges or memory.refresh(engine, backend) else []",
            ),
        ),
        (MODEL,),
        on=PG,
    ),
    Mutant(
        "tasks of unknown functions are claimed",
        (
            Edit("taskqueue/sql/claim.sql", "            AND t.func_path = ANY (%(known)s::text[])\n", ""),
            Edit("taskqueue/engines/sqlite_leases.py", "unpaused.filter(func_path__in=known)", "unpaused"),
        ),
        (PROMISES + "test_a_task_of_an_unknown_function_is_left_for_a_worker_that_knows_it",),
    ),
    Mutant(
        "a paused queue is claimed from",
        (
            Edit("taskqueue/sql/claim.sql", "AND q.paused_at IS NOT NULL", "AND q.paused_at IS NOT NULL AND FALSE"),
            Edit(
                "taskqueue/engines/sqlite_leases.py",
                'above.exclude(queue__in=Queue.objects.paused().values("name"))',
                "above",
            ),
        ),
        (CLAIMS + "test_no_claim_that_begins_after_a_pause_takes_a_task",),
    ),
)

KEYS_AND_ORDER = (
    Mutant(
        "retry opens the old row again",
        (
            Edit(
                "taskqueue/control/task_actions.py",
                "    ended = ended_series(finished, using)\n",
                "    ended = ended_series(finished, using)\n    finished.update(attempts=0)\n",
            ),
        ),
        (MODEL,),
        guarded=True,
    ),
    Mutant(
        "unique keys are looked up, not indexed",
        (
            Edit(
                "migrations/0001_initial.py",
                'fields=["queue", "unique_key"],',
                'fields=["queue", "unique_key", "id"],',
            ),
            Edit(
                "taskqueue/engines/postgresql_rows.py",
                'LEAVE_TAKEN_KEYS if shape.has("unique_key") else ""',
                '""',
            ),
            Edit(
                "taskqueue/engines/postgresql_rows.py",
                "        sql, parameters, alike = statement(tasks)\n",
                "        taken = {(held.queue, held.unique_key) for held in self.holders(tasks)}\n"
                "        tasks = [task for task in tasks if (task.queue, task.unique_key) not in taken]\n"
                "        if not tasks:\n"
                "            return []\n"
                "        sql, parameters, alike = statement(tasks)\n",
            ),
        ),
        (OPERATORS + "test_eight_enqueue_one_unique_key_and_get_one_task",),
        on=PG,
    ),
    Mutant(
        "unique keys are written in the caller's order",
        (
            Edit(
                "taskqueue/enqueue/insert.py",
                '(task.queue if task.unique_key else "", task.unique_key or "")',
                '("", "")',
            ),
        ),
        (OPERATORS + "test_two_enqueue_the_same_keys_in_opposite_order",),
        on=PG,
    ),
    Mutant(
        "operators do not lock what they cancel",
        (
            Edit("taskqueue/sql/cancel.sql", "    FOR NO KEY UPDATE OF t SKIP LOCKED\n", ""),
            Edit("taskqueue/sql/cancel_waiting.sql", "    FOR NO KEY UPDATE OF t\n", ""),
        ),
        (INTERLEAVED,),
        on=PG,
    ),
    Mutant(
        "the guard is not put back on a table that was remade",
        (
            Edit(
                "guard/installation.py",
                "    if not missing(using):\n",
                "    if using in INSTALLED or INSTALLED.append(using):\n",
            ),
            Edit("guard/installation.py", "\nFORGET_STRAYS = ", "\nINSTALLED = []\nFORGET_STRAYS = "),
        ),
        (PROMISES + "test_a_table_that_was_remade_has_its_guard_again_after_migrate",),
        on=SQLITE,
    ),
)
