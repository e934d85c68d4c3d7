"""Sentences about what changed: the same ones in the console and in the shell."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..display.actors import actor_names
from ..display.formatting import format_elapsed, format_moment, format_number, one_line
from ..display.redact import visible_reason
from .contrast import About, Difference
from .what_changed import End, WhatChanged


def sentences(changed: WhatChanged, *, can_see_payload: bool) -> list[str]:
    """Return the sentences, the most telling first."""
    return [
        ends(changed),
        *map(difference, changed.differences),
        *release(changed),
        *packages(changed),
        *migrations(changed),
        *decisions(changed, can_see_payload=can_see_payload),
        *(nothing_else(changed) if changed.success else []),
    ]


def ends(changed: WhatChanged) -> str:
    values = {"first": format_moment(changed.failure.at)}
    if changed.success is None:
        return _("It first failed at %(first)s; no success of it is stored from shortly before.") % values
    values["last"] = format_moment(changed.success.at)
    return _("It first failed at %(first)s, and last worked at %(last)s.") % values


def difference(found: Difference) -> str:
    values = {"fact": fact(found), "failing": found.failing, "succeeding": found.succeeding}
    values |= {"failures": format_number(found.failures), "successes": format_number(found.successes)}
    text = _("%(fact)s: in %(failing)s of %(failures)s failures, and in %(succeeding)s of %(successes)s successes.")
    return text % values


def fact(found: Difference) -> str:
    values = {"path": one_line(found.path, 100), "value": one_line(found.value, 100)}
    match found.about:
        case About.PRESENCE:
            return _("%(path)s is given") % values
        case About.TYPE:
            return _("%(path)s is of type %(value)s") % values
        case _other:
            return _("%(path)s = %(value)s") % values


def release(changed: WhatChanged) -> Iterator[str]:
    before, after = changed.success, changed.failure
    if not after.release:
        yield _('The release of its worker is not known. Give the settings OPTIONS["RELEASE"] to compare releases.')
    elif before is None or not before.release:
        yield _("It failed in release %(after)s; the release before is not known any more.") % {
            "after": one_line(after.release, 100)
        }
    elif before.release != after.release:
        values = {"before": one_line(before.release, 100), "after": one_line(after.release, 100)}
        yield _("The release changed from %(before)s to %(after)s.") % values


def packages(changed: WhatChanged) -> Iterator[str]:
    nothing = _("not installed")
    for name, before, after in changed.packages:
        values = {"name": one_line(name, 60), "before": before or nothing, "after": after or nothing}
        yield _("%(name)s: %(before)s before, %(after)s since.") % values


def migrations(changed: WhatChanged) -> Iterator[str]:
    for name, applied in changed.migrations:
        values = {"name": one_line(name, 160), "before": format_elapsed(applied, changed.failure.at)}
        yield _("Migration %(name)s was applied %(before)s before the first failure.") % values


def decisions(changed: WhatChanged, *, can_see_payload: bool) -> Iterator[str]:
    names = actor_names({event.actor for event in changed.decisions})
    for event in changed.decisions:
        reason = visible_reason(event.reason, can_see_payload=can_see_payload)
        values = {
            "kind": one_line(event.kind, 24), "subject": one_line(event.subject, 100), "by": names[event.actor],
            "time": format_moment(event.ts), "reason": f" ({reason})" if reason else "",
        }  # fmt: skip
        yield _("%(kind)s: %(subject)s, by %(by)s at %(time)s%(reason)s.") % values


def nothing_else(changed: WhatChanged) -> Iterator[str]:
    if is_same(changed.success, changed.failure) and not (
        changed.differences or changed.migrations or changed.decisions or changed.packages
    ):
        yield _("No change was recorded in between. Check the services that the task calls.")


def is_same(success: End | None, failure: End) -> bool:
    return success is not None and success.release == failure.release


def sampled(changed: WhatChanged) -> str:
    """Return how many calls were compared."""
    text = ngettext(
        "Arguments were compared in %(failures)s failure and %(successes)s successes, the newest of each.",
        "Arguments were compared in %(failures)s failures and %(successes)s successes, the newest of each.",
        changed.failures_sampled,
    )
    return text % {"failures": changed.failures_sampled, "successes": changed.successes_sampled}
