"""The supervisor's loop, without processes."""

from __future__ import annotations

import selectors
from types import SimpleNamespace

from django_tasks_retry.worker.shared.messages import channel_pair
from django_tasks_retry.worker.supervisor.supervisor import Supervisor


def test_a_child_that_epoll_tells_of_twice_is_read_once():
    ours, theirs = channel_pair()
    child, selector = SimpleNamespace(channel=ours), selectors.DefaultSelector()
    selector.register(ours.socket, selectors.EVENT_READ, child)
    theirs.close()
    for _ in range(2):
        Supervisor.read_messages(SimpleNamespace(selector=selector), child)  # type: ignore[arg-type]
    assert ours.closed
    assert not selector.get_map()
