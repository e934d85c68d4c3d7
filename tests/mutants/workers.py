"""Bugs of the worker: what it does about lost answers, dead children, signals and wake-ups."""

from __future__ import annotations

from tests.mutants.mutant import PG, UNNAMED, Edit, Mutant

TROUBLE = "tests/worker/test_trouble.py::"
CUT_EACH = TROUBLE + "test_each_statement_may_lose_its_request_or_its_reply"

FLEET = "tests/worker/test_fleet.py::"
BUDGET = "tests/worker/test_claim_budget.py::"

ANSWERS = (
    Mutant(
        "claims whose answer was lost are not given back",
        (
            Edit(
                "worker/child/claimer.py",
                "        if not self.answer_lost or not self.database.is_available:\n",
                "        if True:\n",
            ),
        ),
        (CUT_EACH,),
        on=UNNAMED,
    ),
    Mutant(
        "an outcome in doubt is taken for lost",
        (Edit("worker/child/outbox.py", "if self.in_doubt and rejected:", "if False and rejected:"),),
        (CUT_EACH,),
        on=UNNAMED,
    ),
    Mutant(
        "only connections are known to break",
        (
            Edit(
                "worker/shared/database.py",
                "            except (Error, OSError) as error:",
                "            except (OperationalError, OSError) as error:",
            ),
            Edit(
                "worker/shared/database.py",
                "import DataError, Error, IntegrityError",
                "import DataError, Error, IntegrityError, OperationalError",
            ),
        ),
        (TROUBLE + "test_a_read_only_node_is_waited_out",),
        on=UNNAMED,
    ),
)

STATES = (
    Mutant(
        "a connection that trouble struck is only closed",
        (
            Edit(
                "worker/shared/database.py",
                "        discard(connections[self.using])\n        level",
                "        connections[self.using].close()\n        level",
            ),
        ),
        ("tests/worker/test_database_calls.py::test_a_transaction_that_trouble_left_open_is_gone_with_it",),
    ),
)

LIVES = (
    Mutant(
        "a dead child's tasks wait for the end of their leases",
        (
            Edit(
                "worker/supervisor/orphans.py",
                "        self.dead.append(DeadChild(child, cause))\n",
                "        return\n",
            ),
        ),
        ("tests/worker/test_deaths.py::test_the_task_of_a_killed_child_is_run_again_at_once",),
    ),
    Mutant(
        "leases are not renewed while their tasks run",
        (Edit("worker/supervisor/leases.py", "        if self.renewing.is_due():\n", "        if False:\n"),),
        (
            "tests/worker/test_timeouts.py::"
            "test_leases_are_renewed_while_tasks_outlast_them_even_without_the_interpreter",
        ),
    ),
    Mutant(
        "a worker that stops leaves its leases behind",
        (
            Edit(
                "worker/supervisor/supervisor.py",
                "            self.orphans.add(child, cause)",
                "            if self.stop_by is None:\n                self.orphans.add(child, cause)",
            ),
        ),
        ("tests/worker/test_shutdown.py::test_a_stuck_task_is_handed_back_after_the_grace",),
    ),
    Mutant(
        "a worker is known by its host and pid",
        (Edit("worker/options.py", "-{os.getpid()}-{secrets.token_hex(6)}", "-{os.getpid()}"),),
        ("tests/worker/test_registry.py::test_no_two_starts_share_a_name",),
        on=UNNAMED,
    ),
    Mutant(
        "a coroutine can stop the event loop for all",
        (
            Edit(
                "worker/child/executors.py",
                "        while not self.loop.is_closed():\n",
                "        if True:\n",
            ),
        ),
        ("tests/worker/test_timeouts.py::test_a_coroutine_that_stops_the_event_loop_stops_it_for_nobody",),
    ),
    Mutant(
        "SQL is read when it is needed",
        (
            Edit(
                "taskqueue/engines/postgresql.py",
                "        keyed = bool(ranges[0].lane)\n",
                '        read_sql("lanes")\n        keyed = bool(ranges[0].lane)\n',
            ),
        ),
        ("tests/worker/test_resources.py::test_files_that_a_task_leaves_open_end_with_its_process",),
        on=PG,
    ),
)

WAKING = (
    Mutant(
        "every worker answers every wake-up",
        (Edit("worker/supervisor/dispatch.py", "score(other, sender) > mine", "False"),),
        ("tests/worker/test_fleet.py::test_a_message_is_for_two_of_many_workers_and_all_agree_on_them",),
    ),
    Mutant(
        "a wake-up tells every child to claim",
        (Edit("worker/supervisor/dispatch.py", "chosen = ready[:count]", "chosen = ready"),),
        ("tests/worker/test_fleet.py::test_a_lone_arrival_wakes_one_child",),
    ),
    Mutant(
        "a worker without room keeps the wake-up to itself",
        (
            Edit(
                "worker/supervisor/dispatch.py",
                "            elif not self.wake(1):",
                "            elif self.wake(1):",
            ),
        ),
        ("tests/worker/test_fleet.py::test_a_worker_without_room_hands_the_message_on_to_more",),
        on=PG,
    ),
    Mutant(
        "a worker prunes though another one does",
        (
            Edit(
                "worker/supervisor/maintenance/services.py",
                "return self.is_open or (self.is_elected and self.interval.is_due())",
                "return self.is_open or self.interval.is_due()",
            ),
        ),
        ("tests/worker/test_fleet.py::test_only_the_elected_worker_prunes",),
    ),
    Mutant(
        "a released task goes to the end of the line",
        (
            Edit(
                "taskqueue/report.py",
                "delay = None if outcome.delay is None else bounded_delay(float(outcome.delay))",
                "delay = bounded_delay(float(outcome.delay or 0))",
            ),
        ),
        ("tests/worker/test_fleet.py::test_a_task_that_is_given_back_keeps_its_place_in_line",),
    ),
    Mutant(
        "only the first page of ranges is ever read",
        (
            Edit(
                "taskqueue/claim/cursor.py",
                "self.page_after = FIRST_RANGE if is_last else page.ranges[-1].name[:2]",
                "is_last = True",
            ),
        ),
        ("tests/worker/test_fleet.py::test_one_queue_is_found_among_more_than_fit_on_a_page",),
    ),
    Mutant(
        "coroutines rest though they were woken after the look of functions",
        (
            Edit(
                "worker/child/claimer.py",
                "self.functions.has_seen_nothing(claimer.due_since)",
                "self.functions.has_seen_nothing(0)",
            ),
        ),
        (FLEET + "test_a_wake_up_after_the_look_of_functions_makes_coroutines_look_again",),
    ),
    Mutant(
        "the worker that stands in leaves looking to its children",
        (Edit("worker/supervisor/dispatch.py", "        self.has_skipped = True\n", ""),),
        (FLEET + "test_what_the_first_worker_left_is_found_by_the_second",),
    ),
    Mutant(
        "idle children are not told of an outage",
        (
            Edit(
                "worker/supervisor/supervisor.py",
                "                child.send(DatabaseAway())\n",
                "                pass\n",
            ),
        ),
        (FLEET + "test_children_are_told_of_an_outage_once_it_is_more_than_one_failure",),
        on=UNNAMED,
    ),
    Mutant(
        "only wake-ups find tasks",
        (
            Edit(
                "worker/child/claimer.py",
                "return self.claim_now or monotonic() >= self.next_poll",
                "return self.claim_now",
            ),
            Edit(
                "worker/supervisor/dispatch.py",
                "        if not self.database.is_available or not self.polling.is_due():",
                "        if self.options:",
            ),
        ),
        ("tests/worker/test_wakeup.py::test_without_wake_ups_a_task_is_found_by_polling",),
    ),
    Mutant(
        "nobody looks for what was enqueued while nobody listened",
        (
            Edit(
                "worker/supervisor/supervisor.py",
                "            self.wake_children(1)  # for what",
                "            # for what",
            ),
        ),
        (
            "tests/worker/test_wakeup.py::test_a_task_enqueued_while_the_listener_is_cut_off_is_found_when_it_listens_again",
        ),
        on=PG,
    ),
    Mutant(
        "slots that stand idle make the next claim smaller",
        (Edit("worker/child/prefetch.py", "self.parallel if self.ran_dry else 1.0", "1.0"),),
        (BUDGET + "test_idle_slots_do_not_make_the_next_claim_smaller",),
        on=UNNAMED,
    ),
    Mutant(
        "ends gather though somebody waits for the permit of one",
        (Edit("worker/child/child.py", "if memory.cursor.has_lanes or memory.closed.until:", "if False:"),),
        (BUDGET + "test_ends_do_not_gather_while_others_may_wait_for_the_permit_of_one",),
        on=UNNAMED,
    ),
)
