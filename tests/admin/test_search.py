"""The search box speaks the grammar, says how far it looked, and tells nobody what they may not see."""

from __future__ import annotations

import pytest

from django_tasks_retry.admin.parts import filters
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import statistics
from tests import tasks

LIST = "/admin/django_tasks_retry/task/"


def found(client, query: str) -> set[Task]:
    return set(client.get(LIST, {"q": query}).context["cl"].queryset)


@pytest.fixture
def stored(database) -> list[Task]:
    orders = ({"order": n, "password": f"hunter{n}"} for n in range(4711, 4716))
    return Task.objects.enqueue_many([{"func": tasks.noop, "kwargs": order} for order in orders])


def test_all_words_of_the_grammar_can_be_used(stored, operator):
    assert found(operator, "status:ready since:1h queue:default arg:order=4712") == {stored[1]}
    assert found(operator, "status:failed") == set()
    assert found(operator, "until:1h") == set()


def test_a_slip_is_answered_with_what_to_type(stored, operator):
    shown = operator.get(LIST, {"q": "stauts:ready"}).content.decode()
    assert "There is no “stauts:”. Did you mean status?" in shown
    assert found(operator, "stauts:ready") == set()


class TestArguments:
    @pytest.mark.fault("search_for_hidden_arguments")
    def test_who_may_not_see_them_cannot_search_in_them(self, stored, operator, session_with):
        client = session_with("view_task")
        assert found(operator, "arg:4711") == {stored[0]}
        assert found(client, "arg:4711") == found(client, "meta:4711") == set()
        assert "You may not see arguments and metadata" in client.get(LIST, {"q": "arg:4711"}).content.decode()

    @pytest.mark.fault("search_for_hidden_arguments")
    def test_nobody_finds_what_is_hidden_from_all(self, stored, operator):
        for tried in ("hunter4711", "h", "hunter", "password=hunter4711", "password=h", "unter47"):
            assert found(operator, f"arg:{tried}") == set(), tried

    @pytest.mark.fault("search_for_hidden_arguments")
    def test_an_action_on_all_that_match_changes_no_others(self, stored, operator):
        asked = operator.post(
            f"{LIST}?q=arg:hunter4711", {"action": "cancel_selected", "select_across": "1", "index": 0}
        )
        assert asked.context["possible"] == "0"
        asked = operator.post(f"{LIST}?q=arg:4711", {"action": "cancel_selected", "select_across": "1", "index": 0})
        assert asked.context["possible"] == "1"
        operator.post(f"{LIST}bulk-action/", {"token": asked.context["token"]})
        assert list(Task.objects.cancelled()) == [stored[0]]

    @pytest.mark.fault("arguments_beyond_the_search")
    def test_it_says_how_far_it_looked_and_offers_to_look_further(self, stored, operator, monkeypatch):
        monkeypatch.setattr(filters, "MAX_CANDIDATES", 2)
        page = operator.get(LIST, {"q": "arg:47"})
        assert "so far." in page.content.decode()
        assert "Look further back" in page.content.decode()
        seen = []
        for _look in range(3):
            changelist = page.context["cl"]
            seen.append(changelist.floor)
            page = operator.get(f"{LIST}{changelist.further_query}")
        assert seen == [stored[3].pk, stored[1].pk, None]

    @pytest.mark.fault("arguments_beyond_the_search")
    def test_it_looks_back_as_far_as_other_searches_without_an_index(self, stored, operator, monkeypatch):
        monkeypatch.setattr(statistics, "LOOK_BACK", 2)
        monkeypatch.setattr(filters, "LOOK_FURTHER_BACK", 3)
        page = operator.get(LIST, {"q": "arg:4711"})
        assert page.context["cl"].result_count == 0
        assert "Searched the newest 3 tasks" in page.content.decode()
        assert set(operator.get(f"{LIST}{page.context['cl'].further_query}").context["cl"].queryset) == {stored[0]}
