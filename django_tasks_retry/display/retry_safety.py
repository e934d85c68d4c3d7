"""Is it safe to retry a task? Facts in, a verdict and its reasons out; asks no database."""

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..rules.failure import PERMANENT, Code
from ..rules.status import Status
from ..rules.transitions import POISON_AFTER
from .states import State

SAFE = State("safe", "success", "✓", gettext_lazy("Safe to retry"))
DOUBTFUL = State("doubtful", "retrying", "?", gettext_lazy("Look before you retry"))
RISKY = State("risky", "failed", "!", gettext_lazy("Risky to retry"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryFacts:
    """`lost` counts attempts whose worker was lost, `retries` earlier retries of the task."""

    status: str
    attempts: int
    is_atomic: bool
    code: str = ""
    crashes: int = 0
    lost: int = 0
    retries: int = 0


def safety_of_retry(facts: RetryFacts) -> tuple[State, list[str]]:
    """Return how safe a retry is, and why."""
    if risks := risks_of(facts):
        return RISKY, risks
    if not facts.attempts:
        return SAFE, [_("It never ran.")]
    if facts.is_atomic:
        text = _("It is atomic: failed attempts changed nothing in the database. Mails and other calls are not undone.")
        return SAFE, [text]
    reasons = [_("It is not atomic: what its attempts did is done again, unless its code prevents it.")]
    if facts.lost:
        text = ngettext(
            "%s attempt lost its worker, perhaps after its effect.",
            "%s attempts lost their workers, perhaps after their effect.",
            facts.lost,
        )
        reasons.append(text % facts.lost)
    return DOUBTFUL, reasons


def risks_of(facts: RetryFacts) -> list[str]:
    is_poison = facts.code == Code.CRASHED or facts.crashes >= POISON_AFTER
    risks = [
        (facts.status == Status.SUCCESS, _("It succeeded: its work is done again.")),
        (bool(facts.retries), _("It was retried already: its work may be done twice.")),
        (is_poison, _("It killed its process again and again, and may kill the next one. It would run alone.")),
        (facts.code in PERMANENT, _("It would fail in the same way: %s.") % facts.code),
    ]
    return [text for applies, text in risks if applies]
