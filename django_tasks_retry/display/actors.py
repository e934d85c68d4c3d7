"""Names of actors: users by their user names, others as they call themselves. Also who paused a queue, and why."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

from ..taskqueue.control.decisions import Pausable
from .formatting import NO_VALUE, format_moment, one_line
from .redact import visible_reason


def actor_names(actors: set[str]) -> dict[str, str]:
    """Actor → name; all users in one query."""
    keys = {actor: actor.partition(":")[2] for actor in actors if actor.startswith("user:")}
    usernames = find_usernames([key for key in keys.values() if is_valid_user_key(key)])
    return {actor: one_line(usernames.get(keys.get(actor, ""), actor), 80) for actor in actors}


def find_usernames(keys: list[str]) -> dict[str, str]:
    users = get_user_model()._default_manager.filter(pk__in=keys) if keys else ()
    return {str(user.pk): user.get_username() for user in users}


def is_valid_user_key(key: str) -> bool:
    """False for what the primary key of users cannot hold: asking the database for it would be an error."""
    field = get_user_model()._meta.pk
    try:
        field.run_validators(field.to_python(key))
    except ValidationError:
        return False
    return True


class Pause(NamedTuple):
    """Describe who paused a queue, lane, function or schedule, when and why, as far as this reader may know."""

    at: datetime | None
    by: str
    reason: str

    @property
    def values(self) -> dict[str, str]:
        """Return the values of a sentence."""
        return {"by": self.by, "time": format_moment(self.at), "reason": self.reason or NO_VALUE}


def describe_pauses(rows: Iterable[Pausable], *, can_see_payload: bool = True) -> dict[str, Pause]:
    """Return the pauses of these rows, by the name of what is paused."""
    paused = {row.name: row for row in rows if row.paused_at is not None}
    names = actor_names({row.paused_by for row in paused.values()})
    return {
        name: Pause(row.paused_at, names[row.paused_by], visible_reason(row.reason, can_see_payload=can_see_payload))
        for name, row in paused.items()
    }
