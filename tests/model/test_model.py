"""The queue against the model: random lives of a few tasks, compared after every step, on both databases.

Stale leases are kept and used again on purpose, and there are few workers, so that the same worker often claims the
same task twice. MODEL_EXAMPLES=5000 searches further, and differently each time; MODEL_SHRINK=0 leads the same lives
each time and stops at the first counterexample, however long.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import QueueMachine

EXAMPLES = int(os.environ.get("MODEL_EXAMPLES", "0"))
SHRINK = os.environ.get("MODEL_SHRINK", "1") == "1"


def test_the_queue_behaves_like_the_model(committed):
    class OnThisDatabase(QueueMachine):
        using = committed

    run_state_machine_as_test(
        OnThisDatabase,
        settings=settings(
            max_examples=EXAMPLES or 25,
            stateful_step_count=40,
            derandomize=not (EXAMPLES and SHRINK),
            phases=(Phase.generate, Phase.shrink) if SHRINK else (Phase.generate,),
            database=None,
            deadline=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
