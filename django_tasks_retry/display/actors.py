"""The names of those who acted: users by their user names, others as they call themselves."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError

from .formatting import one_line


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
