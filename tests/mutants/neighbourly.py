"""Bugs about the answer of an enqueue, and about living with other people's code."""

from __future__ import annotations

from tests.mutants.mutant import PG, UNNAMED, Edit, Mutant

ANSWERS = "tests/taskqueue/test_enqueue_answers.py::"
ORDINARY = "tests/worker/test_ordinary_processes.py::"
NAMES = "tests/backend/test_names.py::"
PRUNE = "tests/taskqueue/test_prune.py::"

ENQUEUES = (
    Mutant(
        "a wake-up that fails fails its enqueue",
        (
            Edit(
                "taskqueue/enqueue/notify.py",
                "    except Exception as error:\n        logger.debug",
                "    except ZeroDivisionError as error:\n        logger.debug",
            ),
        ),
        (
            ANSWERS + "test_without_threads_what_is_stored_is_returned",
            ANSWERS + "test_a_caller_may_manage_transactions_by_hand",
        ),
        on=PG,
    ),
    Mutant(
        "the wake-up takes a connection of the pool",
        (Edit("taskqueue/enqueue/notify.py", ' if name != "pool"}', "}"),),
        (ANSWERS + "test_the_wake_up_leaves_the_pool_to_the_project",),
        on=PG,
    ),
    Mutant(
        "tasks are enqueued in the database of the first",
        (Edit("taskqueue/enqueue/enqueue.py", "    if len(set(databases.values())) > 1:\n", "    if False:\n"),),
        (ANSWERS + "test_tasks_of_two_databases_are_not_enqueued_together",),
    ),
    Mutant(
        "the manager forgets run_after",
        (
            Edit(
                "taskqueue/enqueue/enqueue.py",
                "shared.run_after if options.eta is None else options.eta",
                "options.eta",
            ),
        ),
        ("tests/taskqueue/test_enqueue.py::test_the_manager_honours_every_option_of_using",),
    ),
    Mutant(
        "ids stay in the future",
        (Edit("taskqueue/new_tasks.py", " or milliseconds - clock > STEP_BACK_MS:", ":"),),
        ("tests/rules/test_repeat.py::test_ids_come_back_from_the_future_when_the_clock_does",),
        on=UNNAMED,
    ),
    Mutant(
        "what is called for cannot be told from the decorated function",
        (
            Edit(
                "worker/child/call.py",
                "inspect.signature(function, follow_wrapped=False)",
                "inspect.signature(function)",
            ),
        ),
        ("tests/backend/test_decorated.py::test_a_decorated_function_runs_as_it_is",),
    ),
)

OTHERS = (
    Mutant(
        "one backend prunes what another keeps",
        (
            Edit(
                "taskqueue/retention/prune.py",
                "ids = [task_id for task_id in past if task_id not in kept]",
                "ids = past",
            ),
            Edit(
                "taskqueue/sql/prune.sql",
                "        AND t.backend = %(backend)s\n        AND t.batch",
                "        AND t.batch",
            ),
        ),
        (PRUNE + "test_the_history_of_another_backend_in_the_same_database_stays",),
    ),
    Mutant(
        "ids of the future are never pruned",
        (
            Edit(
                "taskqueue/retention/prune.py",
                "(results.filter(pk__lt=newest), results.filter(pk__gte=max(newest, future)))",
                "(results.filter(pk__lt=newest),)",
            ),
        ),
        (PRUNE + "test_tasks_whose_ids_lie_in_the_future_are_pruned_like_others",),
    ),
    Mutant(
        "a retry doubles the series",
        (Edit("taskqueue/control/task_actions.py", "{} if task.pk in ended else ONCE", "{}"),),
        (
            "tests/taskqueue/test_repeat.py::test_a_retry_beside_a_next_occurrence_runs_once",
            "tests/taskqueue/test_repeat.py::test_a_second_retry_does_not_double_the_series",
        ),
    ),
    Mutant(
        "a result that cannot be stored is made again",
        (Edit("rules/failure.py", "Code.BAD_ARGUMENTS, Code.RESULT_NOT_SERIALIZABLE, ", "Code.BAD_ARGUMENTS, "),),
        (
            "tests/taskqueue/test_canonical_json.py::test_a_result_that_cannot_be_stored_fails_the_task_at_once",
            "tests/worker/test_atomic.py::test_writes_and_completion_commit_together",
        ),
    ),
    Mutant(
        "a backend is known by its path",
        (
            Edit(
                "conf/__init__.py",
                'return OURS in map(path_of, getattr(backend, "__mro__", ()))',
                "return backend is not None and path == OURS",
            ),
        ),
        (NAMES + "test_a_subclass_is_one_of_our_backends", NAMES + "test_tasks_of_a_subclass_are_enqueued"),
        on=UNNAMED,
    ),
    Mutant(
        "a foreign backend's tasks are stored",
        (
            Edit(
                "taskqueue/enqueue/enqueue.py",
                "check_backend(options.backend or registered.backend)",
                "options.backend or registered.backend",
            ),
        ),
        (NAMES + "test_a_task_of_a_foreign_backend_is_not_stored",),
    ),
    Mutant(
        "a mistyped queue is paused",
        (Edit("taskqueue/control/decisions.py", "            check_queue_in_use(name, backend)\n", ""),),
        (NAMES + "test_a_mistyped_queue_is_not_paused",),
    ),
    Mutant(
        "half a module is enough",
        (Edit("registry.py", "        forget_tasks_of(name)\n", ""),),
        ("tests/backend/test_unimportable.py::test_a_worker_names_it_and_runs_the_tasks_of_others",),
        on=UNNAMED,
    ),
    Mutant(
        "each final failure is reported twice",
        (Edit("worker/logs.py", "    report_failures_once()\n", ""),),
        (ORDINARY + "test_each_final_failure_reaches_sentry_once_and_before_the_process_ends",),
    ),
    Mutant(
        "telemetry ends with its process",
        (Edit("worker/child/process.py", "        sentry.flush(timeout=TELEMETRY_SECONDS)\n", "        pass\n"),),
        (ORDINARY + "test_each_final_failure_reaches_sentry_once_and_before_the_process_ends",),
    ),
    Mutant(
        "a wrapper goes from task to task",
        (
            Edit(
                "worker/child/connections.py",
                "        connections[self.alias] = fresh = connections.create_connection(self.alias)\n",
                "        fresh = old\n",
            ),
        ),
        (ORDINARY + "test_what_a_task_says_to_its_connection_is_not_said_to_the_next",),
    ),
)
