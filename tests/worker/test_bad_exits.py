"""After any misdeed of a task the next one runs, and the history says what happened."""

from __future__ import annotations

from uuid import uuid4

import pytest

from django_tasks_retry.models import Task
from tests.faults.marker import showing
from tests.steps import enqueue_unchecked

from . import tasks
from .harness import status_of, story, wait_until_finished

LOST, RAISED, UNSTORABLE = "LEASE_LOST", "EXCEPTION", "RESULT_NOT_SERIALIZABLE"
NUL, SURROGATE = r"a\x00b", r"a\ud800b"
CASES = {
    ("exits_and_interrupts_raised",): {
        "sys.exit": (tasks.system_exit, [], RAISED, "3"),
        "sys.exit in a coroutine": (tasks.asystem_exit, [], RAISED, "3"),
        "KeyboardInterrupt": (tasks.interrupt, [], RAISED, ""),
        "KeyboardInterrupt in a coroutine": (tasks.ainterrupt, [], RAISED, ""),
        "CancelledError": (tasks.cancel_itself, [], RAISED, ""),
        "GeneratorExit": (tasks.generator_exit, [], RAISED, ""),
    },
    ("hard_exits",): {
        "os._exit": (tasks.exit_at_once, [], LOST, ""),
        "segfault": (tasks.segfault, [], LOST, ""),
        "abort": (tasks.abort, [], LOST, ""),
    },
    ("unprintable_errors",): {
        "recursion": (tasks.recurse, [], RAISED, "maximum recursion depth exceeded"),
        "a message of 50 MB": (tasks.raise_50_megabytes, [], RAISED, "bytes cut"),
        "an error without words": (tasks.raise_unspeakable, [], RAISED, "whose text cannot be made"),
    },
    ("nul_surrogates_nan", "data_changed_by_jsonb"): {
        "NUL in the error": (tasks.raise_text, [NUL], RAISED, r"a\u0000b"),
        "surrogate in the error": (tasks.raise_text, [SURROGATE], RAISED, r"a\ud800b"),
        "NUL in the result": (tasks.return_text, [NUL], UNSTORABLE, "U+0000"),
        "surrogate in the result": (tasks.return_text, [SURROGATE], UNSTORABLE, "U+D800"),
        "an object as result": (tasks.return_object, [], UNSTORABLE, "not JSON"),
    },
    ("nested_too_deep",): {"a result nested too deep": (tasks.return_depth, [], UNSTORABLE, "nested deeper")},
    ("arguments_that_do_not_fit",): {
        "missing arguments": (tasks.take_two, [1], "BAD_ARGUMENTS", "missing a required argument"),
    },
    ("odd_exceptions",): {
        "a group": (tasks.raise_group, [], RAISED, "several (2 sub-exceptions)"),
        "a circle of causes": (tasks.raise_in_a_circle, [], RAISED, "first"),
        "an exception that cannot be pickled": (tasks.raise_unpicklable, [], RAISED, "holds a lock"),
    },
}


@pytest.mark.parametrize("faults", [showing(faults, *faults) for faults in CASES])
def test_after_every_bad_exit_the_next_task_runs_and_the_books_are_right(start, effects, faults):
    start("--threads", "2")
    for name, (function, arguments, code, words) in CASES[faults].items():
        task = wait_until_finished(enqueue_unchecked(function, arguments))
        assert wait_until_finished(Task.objects.enqueue(tasks.canary, [name])).status == "SUCCESS", name
        assert effects.count(name) == 1, name
        assert (name, task.status, task.outcome.error["code"]) == (name, "FAILED", code)
        assert words in task.outcome.error["message"], name


@pytest.mark.fault("function_missing")
def test_a_function_that_this_worker_does_not_know_is_left_for_others(start, effects):
    canary = Task.objects.enqueue(tasks.canary)
    unknown = Task.objects.get(pk=canary.pk)
    unknown.pk, unknown.func_path = uuid4(), "os.system"
    unknown.save(force_insert=True)
    worker = start("--drain")
    assert worker.exit_code() == 0
    assert (status_of(unknown), story(unknown)) == ("PENDING", [])
    assert status_of(canary) == "SUCCESS"
