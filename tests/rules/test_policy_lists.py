from __future__ import annotations

import pytest

from django_tasks_retry import retry
from django_tasks_retry.errors import InvalidPolicy
from django_tasks_retry.rules.policy import policy_of


def test_classes_of_exceptions_may_stand_in_a_list() -> None:
    @retry(retry_on=[OSError], abort_on=[ValueError])
    def function() -> None: ...

    assert (policy_of(function).retry_on, policy_of(function).abort_on) == ((OSError,), (ValueError,))


def test_a_list_of_something_else_is_refused() -> None:
    with pytest.raises(InvalidPolicy, match="give a tuple of exception classes"):
        retry(retry_on=["OSError"])  # type: ignore[list-item]
