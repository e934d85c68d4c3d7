"""Workflows: steps that are recorded, batches and signals to wait for, and waking the tasks that wait."""

from .batches import call_of
from .canary import MOST_CANARIES, canary_standing
from .context import Workflow
from .effects import ASKED, UnknownEffect, answer_effect, unknown_effects
from .members import CANARY, SIGNAL, ancestry, as_batch, batch_of, keys_of
from .results import batch_counts
from .steps import CALLBACK, HIDDEN, UNTIL, StepKind, StepStore, storable
