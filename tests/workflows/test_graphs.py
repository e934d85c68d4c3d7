"""Random graphs, run by gather, come to what an evaluation in topological order comes to."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_tasks_retry.models import Task
from django_tasks_retry.testing import Tasks
from tests.steps import now_of
from tests.workflows import tasks


def node(op: str, of: list[Any]) -> dict[str, Any]:
    return {"op": op, "of": of}


numbers = st.integers(-9, 9)
graphs = st.recursive(
    numbers, lambda below: st.builds(node, st.sampled_from(["sum", "max"]), st.lists(below, max_size=3)), max_leaves=8
)


def evaluate(node: Any) -> int:
    if isinstance(node, int):
        return node
    return tasks.combine(node["op"], [evaluate(each) for each in node["of"]])


@pytest.mark.fault("task_graphs_of_any_shape")
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(graph=graphs)
def test_a_graph_comes_to_what_its_topological_evaluation_does(database, graph):
    with transaction.atomic(database):
        task = Task.objects.enqueue(tasks.node, [graph])
        kit = Tasks()
        kit.run_due()
        assert now_of(task).outcome.result == evaluate(graph)
        transaction.set_rollback(True, using=database)
