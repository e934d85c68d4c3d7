"""Several hosts in the connection string: a first one that swallows packets is survived."""

from __future__ import annotations

import signal

import pytest

from django_tasks_retry.models import Task
from tests.proxy import Proxy

from . import tasks
from .conftest import Start, starter
from .harness import wait_for, wait_until_finished
from .trouble import ALIAS, Server


@pytest.fixture
def start_with_two_hosts(server: Server, proxy: Proxy, tmp_path):
    proxy.mode = "swallow"
    place = server.place()
    place |= {"HOST": "127.0.0.1,127.0.0.1", "PORT": f"{proxy.port},{server.cluster.port}"}
    place["OPTIONS"] = place["OPTIONS"] | {"connect_timeout": "2"}
    yield from starter(ALIAS, tmp_path, place)


@pytest.mark.fault("F129")
def test_a_worker_starts_works_and_reconnects_though_its_first_host_answers_nothing(
    start_with_two_hosts: Start, server: Server, effects
):
    worker = start_with_two_hosts(lease=10.0)
    assert wait_until_finished(Task.objects.enqueue(tasks.canary), 60).status == "SUCCESS"
    long = Task.objects.enqueue(tasks.wait_at, ["a"])
    effects.wait_for("begin a", seconds=60)
    assert server.end_backends() > 0
    tasks.gate("a").touch()
    assert wait_until_finished(long, 60).status == "SUCCESS"
    assert wait_until_finished(Task.objects.enqueue(tasks.canary), 60).status == "SUCCESS"
    wait_for(lambda: worker.row and worker.row.running == 0, "a heartbeat", 60)
    worker.signal(signal.SIGTERM)
    assert worker.exit_code(60) == 0
