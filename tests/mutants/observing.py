"""Bugs of what watches: middleware, signals, counters."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

AROUND = "tests/middleware/test_middleware.py::"
TOLD = "tests/middleware/test_signals_everywhere.py::"

MIDDLEWARE = (
    Mutant(
        "an error of a middleware fails the task",
        (
            Edit(
                "middleware/layers.py",
                "        if isinstance(error, KeyboardInterrupt) or self.interrupts(error):\n",
                "        if True:\n",
            ),
        ),
        (AROUND + "test_middleware_that_fails_is_logged_and_fails_nothing",),
    ),
    Mutant(
        "middleware is left in the order in which it was entered",
        (Edit("middleware/layers.py", "self.entered.pop()", "self.entered.pop(0)"),),
        (AROUND + "test_the_first_is_the_outermost_around_every_attempt",),
    ),
    Mutant(
        "the last middleware is the outermost",
        (Edit("middleware/layers.py", "for hook in self.around:", "for hook in reversed(self.around):"),),
        (AROUND + "test_the_first_is_the_outermost_around_every_way_to_enqueue",),
    ),
    Mutant(
        "a middleware that failed to begin is left all the same",
        (
            Edit(
                "middleware/layers.py",
                "            layer.__enter__()\n            self.entered.append((hook, layer))\n",
                "            self.entered.append((hook, layer))\n            layer.__enter__()\n",
            ),
        ),
        (AROUND + "test_a_layer_that_was_not_entered_is_not_left",),
    ),
    Mutant(
        "a next occurrence is told to nobody",
        (Edit("taskqueue/consumer/finish.py", ", next_id=report.next_id)", ")"),),
        (TOLD + "test_the_next_occurrence_is_told",),
    ),
)
