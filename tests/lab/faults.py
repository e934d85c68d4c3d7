"""The faults, by name: how each begins, and how it is mended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .cluster import Cluster
from .network import Host

Mend = Callable[[], None]
ETCD_AWAY_SECONDS = 25.0
HOST_CUT_SECONDS = 30.0


def nothing() -> None:
    """To be mended."""


def power_off(cluster: Cluster, host: Host) -> Mend:
    host.lose_power()
    return lambda: cluster.start_host(host)


def leader_crash(cluster: Cluster) -> Mend:
    """The leader's host loses its power."""
    return power_off(cluster, cluster.named("leader"))


def standby_loss(cluster: Cluster) -> Mend:
    """A standby's host loses its power: the synchronous one, if there is one."""
    return power_off(cluster, cluster.named("standby"))


def postgres_crash(cluster: Cluster) -> Mend:
    """The leader's PostgreSQL is killed; its host stays."""
    data = str(cluster.named("leader").folder / "data")
    first = Path(data, "postmaster.pid").read_text(encoding="utf-8").split()[0]
    with suppress(ProcessLookupError):
        os.kill(int(first), signal.SIGKILL)
    return nothing


def cable_cut(cluster: Cluster) -> Mend:
    """The leader's network cable is cut."""
    leader = cluster.named("leader")
    leader.cut_cable()
    return leader.mend


def swallowed_packets(cluster: Cluster) -> Mend:
    """The leader's packets vanish, both ways, without a word."""
    leader = cluster.named("leader")
    leader.swallow_packets()
    return leader.mend


def leader_freeze(cluster: Cluster) -> Mend:
    """All processes of the leader's host are stopped, and go on when another leads."""
    leader = cluster.named("leader")
    leader.freeze()
    return leader.thaw


def fresh_start(cluster: Cluster) -> Mend:
    """The worker whose list of hosts begins with a silent one, without any timeout, is killed and starts afresh."""
    cluster.restart_worker()
    return nothing


def switchover(cluster: Cluster) -> Mend:
    """An operator makes a standby the leader."""
    cluster.switch_over()
    return nothing


def etcd_loss(cluster: Cluster) -> Mend:
    """All of etcd is away for a while."""
    for host in cluster.hosts:
        for pid in host.processes():
            if Path(f"/proc/{pid}/exe").resolve() == cluster.programs.etcd.resolve():
                os.kill(pid, signal.SIGKILL)
    time.sleep(ETCD_AWAY_SECONDS)
    for host in cluster.hosts:
        cluster.start_etcd(host)
    return nothing


def host_cut(cluster: Cluster) -> Mend:
    """The cable of a worker's host is cut for two leases: what exceeds 30 s is the time it takes to go on."""
    host = cluster.workers[1]
    host.cut_cable()
    time.sleep(HOST_CUT_SECONDS)
    host.mend()
    return nothing


FAULTS: dict[str, Callable[[Cluster], Mend]] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        leader_crash,
        cable_cut,
        swallowed_packets,
        leader_freeze,
        fresh_start,
        standby_loss,
        switchover,
        etcd_loss,
        postgres_crash,
        host_cut,
    )
}
