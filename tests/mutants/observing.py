"""Bugs of what watches: middleware, signals, counters."""

from __future__ import annotations

from tests.mutants.mutant import UNNAMED, Edit, Mutant

AROUND = "tests/middleware/test_middleware.py::"
METRICS = "tests/metrics/test_metrics.py::"
TOLD = "tests/middleware/test_signals_everywhere.py::"

MIDDLEWARE = (
    Mutant(
        "an error of a middleware fails the task",
        (
            Edit(
                "middleware.py",
                "        if isinstance(error, KeyboardInterrupt) or self.interrupts(error):\n",
                "        if True:\n",
            ),
        ),
        (AROUND + "test_middleware_that_fails_is_logged_and_fails_nothing",),
    ),
    Mutant(
        "middleware is left in the order in which it was entered",
        (Edit("middleware.py", "self.entered.pop()", "self.entered.pop(0)"),),
        (AROUND + "test_the_first_is_the_outermost_around_every_attempt",),
    ),
    Mutant(
        "the last middleware is the outermost",
        (Edit("middleware.py", "for hook in self.hooks:", "for hook in reversed(self.hooks):"),),
        (AROUND + "test_the_first_is_the_outermost_around_every_way_to_enqueue",),
    ),
    Mutant(
        "a middleware that failed to begin is left all the same",
        (
            Edit(
                "middleware.py",
                "            layer.__enter__()\n            self.entered.append((hook, layer))\n",
                "            self.entered.append((hook, layer))\n            layer.__enter__()\n",
            ),
        ),
        (AROUND + "test_a_layer_that_was_not_entered_is_not_left",),
    ),
    Mutant(
        "a next occurrence is told to nobody",
        (Edit("taskqueue/recording.py", ", next_id=report.next_id)", ")"),),
        (TOLD + "test_the_next_occurrence_is_told",),
    ),
)

COUNTERS = (
    Mutant(
        "a counter tells of the last addition only",
        (
            Edit(
                "taskqueue/engines/base.py",
                "{column} = stat.{column} + excluded.{column}",
                "{column} = excluded.{column}",
            ),
        ),
        (METRICS + "test_counters_and_histograms_add_up",),
    ),
    Mutant(
        "totals are forgotten with the statistics",
        (
            Edit(
                "taskqueue/statistics/stats.py",
                "    past = TaskStat",
                "    TaskTotal.objects.using(database(backend)).all().delete()\n    past = TaskStat",
            ),
        ),
        (METRICS + "test_counters_never_go_back_across_prune_and_restart",),
    ),
    Mutant(
        "a bucket holds one more than its bound",
        (Edit("taskqueue/statistics/stats.py", "bisect_left(BOUNDS, seconds)", "bisect_left(BOUNDS, seconds) + 1"),),
        (METRICS + "test_every_bucket_holds_what_it_says",),
        on=UNNAMED,
    ),
    Mutant(
        "any token opens the metrics",
        (
            Edit(
                "monitoring.py",
                "constant_time_compare(given_token(request), chosen.metrics_token)",
                "given_token(request)",
            ),
        ),
        ("tests/metrics/test_views.py::test_a_wrong_token_is_refused_without_a_word_about_the_queues",),
    ),
)

TRACES = (
    Mutant(
        "a retry stays in the trace of its enqueue",
        (Edit("contrib/otel.py", "return attempt.number == 1 and carrier", "return carrier"),),
        (
            "tests/contrib/test_otel.py::"
            "test_a_request_its_bulk_enqueue_and_first_attempts_are_one_trace_and_a_retry_links_to_it",
        ),
    ),
    Mutant(
        "failures that are tried again are reported",
        (Edit("contrib/sentry.py", "(ending.is_final or self.report_retries)", "True"),),
        ("tests/contrib/test_sentry.py::test_a_final_failure_is_reported_once_with_our_fingerprint",),
    ),
)

LINES = (
    Mutant(
        "an interruption ends in the log",
        (
            Edit(
                "worker/child/attempt_logs.py",
                "    except (TaskTimeout, TaskCancelled):\n        raise  # meant for the function\n",
                "",
            ),
        ),
        ("tests/middleware/test_attempt_logs.py::test_an_interruption_while_a_line_is_said_reaches_the_function",),
    ),
)
