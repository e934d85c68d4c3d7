"""Several hosts in the connection string, without any timeout: a first one that swallows packets costs one try."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace

import pytest
from django.db import OperationalError, connections

from django_tasks_retry.models import Task
from django_tasks_retry.worker import startup

from . import tasks
from .conftest import Start, starter
from .harness import wait_for, wait_until_finished
from .trouble import ALIAS, Server


class SilentHost:
    """Lets the kernel complete each connection, and never answers."""

    def __init__(self, host: str) -> None:
        self.host, self.socket = host, socket.create_server((host, 0))
        self.socket.setblocking(False)
        self.port = int(self.socket.getsockname()[1])

    def count(self) -> int:
        """Return how many connections were opened since the last count."""
        opened = 0
        with suppress(BlockingIOError):
            while True:
                self.socket.accept()[0].close()
                opened += 1
        return opened


@pytest.fixture(params=["127.0.0.1", "127.0.0.2"])
def silent(request) -> Iterator[SilentHost]:
    host = SilentHost(request.param)
    yield host
    host.socket.close()


@pytest.fixture
def start_with_two_hosts(server: Server, silent: SilentHost, tmp_path):
    """The names of the hosts differ if `silent` has another."""
    place = server.place()
    place |= {"HOST": f"{silent.host},127.0.0.1", "PORT": f"{silent.port},{server.cluster.port}"}
    yield from starter(ALIAS, tmp_path, place)


@pytest.mark.fault("first_host_swallows_packets")
def test_a_worker_starts_works_and_reconnects_though_its_first_host_answers_nothing(
    start_with_two_hosts: Start, silent: SilentHost, server: Server, effects
):
    worker = start_with_two_hosts(lease=60.0)
    assert wait_until_finished(Task.objects.enqueue(tasks.canary), 60).status == "SUCCESS"
    assert silent.count() == 1
    long = Task.objects.enqueue(tasks.wait_at, ["a"])
    effects.wait_for("begin a", seconds=60)
    assert server.end_backends() > 0
    tasks.gate("a").touch()
    assert wait_until_finished(long, 60).status == "SUCCESS"
    assert wait_until_finished(Task.objects.enqueue(tasks.canary), 60).status == "SUCCESS"
    wait_for(lambda: worker.row and worker.row.running == 0, "a heartbeat", 60)
    assert silent.count() == 0
    worker.signal(signal.SIGTERM)
    assert worker.exit_code(60) == 0


def answered(host: str, port: int, place: dict[str, object]) -> dict[str, object]:
    """Return the place after a connection that was answered by this host."""
    info = SimpleNamespace(host=host, port=port)
    connection = SimpleNamespace(info=info)
    wrapper = SimpleNamespace(vendor="postgresql", alias="away", settings_dict=place, connection=connection)
    startup.prefer_answering_host(wrapper)
    return wrapper.settings_dict


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"HOST": "a,b,c", "PORT": "5432,5432,5432"}, {"HOST": "b,a,c", "PORT": "5432,5432,5432"}),
        ({"HOST": "a,b,c", "PORT": "5432"}, {"HOST": "b,a,c", "PORT": "5432"}),
        ({"HOST": "a,b", "PORT": ""}, {"HOST": "b,a", "PORT": ""}),
        ({"HOST": "b,b", "PORT": "6000,5432"}, {"HOST": "b,b", "PORT": "5432,6000"}),
        ({"HOST": "a,b", "PORT": "6000,5432"}, {"HOST": "b,a", "PORT": "5432,6000"}),
        ({"HOST": "", "OPTIONS": {"host": "a,b"}}, {"HOST": "", "OPTIONS": {"host": "b,a"}}),
        (
            {"PORT": "", "OPTIONS": {"host": "a,b", "port": "6000,5432"}},
            {"PORT": "", "OPTIONS": {"host": "b,a", "port": "5432,6000"}},
        ),
        ({"HOST": "b", "PORT": "5432"}, {"HOST": "b", "PORT": "5432"}),
        ({"HOST": "", "PORT": ""}, {"HOST": "", "PORT": ""}),
    ],
)
def test_the_host_that_answered_is_tried_first(before, after, monkeypatch):
    monkeypatch.setattr(connections, "settings", {})
    assert answered("b", 5432, before) == after


def test_hosts_of_the_environment_are_put_in_order_too(monkeypatch):
    monkeypatch.setattr(connections, "settings", {})
    monkeypatch.setenv("PGHOST", "a,b")
    assert answered("b", 5432, {"HOST": "", "PORT": ""})["OPTIONS"] == {"host": "b,a"}
    assert startup.connect_timeout({"HOST": ""}, lease=60.0) == 2


def test_no_thread_reads_hosts_in_one_order_and_ports_in_the_other(monkeypatch):
    """Settings that somebody may be reading stay whole; connections of new threads have those in the new order."""
    monkeypatch.setattr(connections, "settings", {})
    before = {"HOST": "a,b", "PORT": "6000,5432"}
    after = answered("b", 5432, before)
    assert (before, connections.settings["away"]) == ({"HOST": "a,b", "PORT": "6000,5432"}, after)


def test_one_of_several_hosts_is_waited_for_as_briefly_as_the_driver_can():
    for place in ({"HOST": "a,b"}, {"HOST": "", "OPTIONS": {"host": "a,b"}}):
        assert startup.connect_timeout(place, lease=60.0) == 2
    assert [startup.connect_timeout({"HOST": "a"}, lease) for lease in (4.0, 20.0, 600.0)] == [2, 5, 10]


def test_a_start_says_what_it_waits_for_and_gives_a_silent_server_up(monkeypatch, committed, caplog):
    if connections[committed].vendor != "postgresql":
        pytest.skip("SQLite has no server that could be silent")
    monkeypatch.setattr(startup, "NOTICE_SECONDS", 0.05)
    monkeypatch.setattr(startup, "PHASE_SECONDS", 0.5)

    def ask() -> None:
        with startup.phase("its answer is read", committed), connections[committed].cursor() as cursor:
            cursor.execute("SET client_connection_check_interval = 100")  # it ends with its client
            cursor.execute("SELECT pg_sleep(60)")

    logging.getLogger("django_tasks_retry").propagate = True
    with pytest.raises(OperationalError, match=r"did not answer within 0\.5 s, while its answer is read"):
        ask()
    connections[committed].close()
    assert "waiting for the database" in caplog.text
    assert "its answer is read" in caplog.text
