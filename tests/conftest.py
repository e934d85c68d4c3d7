from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import django
import pytest
from django.conf import settings as django_settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from django_tasks_retry import clock
from django_tasks_retry.taskqueue.retention.convert import partition_history
from django_tasks_retry.taskqueue.retention.layout import Period
from tests import cleaning, pg
from tests.faults.marker import pytest_configure, pytest_generate_tests  # noqa: F401
from tests.partitions.at_once import archive_at_once
from tests.router import CurrentDatabase
from tests.worker import warm
from tests.worker.trouble import Server

SLOW_ROOMS = ("soak", "mutants", "faults", "worker", "admin")
LONG = (
    "admin/test_browser.py",
    "admin/test_fuzz.py",
    "admin/test_plans.py",
    "admin/test_unreadable.py",
    "backend/test_discovery.py",
    "backend/test_unimportable.py",
    "backend/test_wagtail.py",
    "cli/test_shell.py",
    "conformance/test_conformance.py",
    "contrib/test_doors.py",
    "example/",
    "faults/test_clocks.py",
    "faults/test_coverage.py",
    "faults/test_disk.py",
    "faults/test_everywhere.py",
    "faults/test_failover.py",
    "faults/test_failpoints.py",
    "faults/test_least_privilege.py",
    "faults/test_pgbouncer.py",
    "faults/test_rolling_deploy.py",
    "lanes/test_fairness.py",
    "lanes/test_unsound_rows.py",
    "model/test_model.py",
    "neighbours/test_behaviours.py",
    "partitions/test_guard.py",
    "plans/test_horizon.py",
    "plans/test_keyed.py",
    "plans/test_small_tables.py",
    "plans/test_waiting.py",
    "races/test_flow_control.py",
    "races/test_interleavings.py",
    "races/test_lanes.py",
    "races/test_operators.py",
    "races/test_reports.py",
    "schedules/test_races.py",
    "taskqueue/test_unreadable_rows.py",
    "testing/test_unittest.py",
    "typing/test_types.py",
    "upgrade/",
    "verify/test_on_top.py",
    "worker/test_bad_exits.py",
    "worker/test_cripples.py",
    "worker/test_deaths.py",
    "worker/test_drain.py",
    "worker/test_hosts.py",
    "worker/test_lanes.py",
    "worker/test_limits.py",
    "worker/test_long_writes.py",
    "worker/test_looked_after.py",
    "worker/test_middleware.py",
    "worker/test_one_exit.py",
    "worker/test_ordinary_processes.py",
    "worker/test_output.py",
    "worker/test_registry.py",
    "worker/test_reload.py",
    "worker/test_resources.py",
    "worker/test_schedules.py",
    "worker/test_shutdown.py",
    "worker/test_timeouts.py",
    "worker/test_trouble.py",
    "worker/test_wakeup.py",
    "workflows/test_kit.py",
)
"""Files of the long tier, beside single tests that are marked so."""
LAYOUT = os.environ.get("LAYOUT", "")
"""`LAYOUT=partitioned pytest tests/contract` runs it on PostgreSQL with history in partitions."""
PLAIN = os.environ.get("ABILITIES") == "plain"
"""`ABILITIES=plain pytest tests/contract` runs it on PostgreSQL with the least that the package needs of a server."""
ALIASES = {"sqlite": "default", "postgresql": "postgresql"}
# No verdict of ours is about time: a busy machine makes any example slow.
hypothesis_settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("tests")


GIGABYTE = 1 << 30
LONG_ONES = pytest.StashKey[int]()
"""How many tests of the long tier this run has left out."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use every core for the whole suite, and only this process for files that are named."""
    if config.args_source is pytest.Config.ArgsSource.ARGS:
        config.option.dist = "no"
        return 0
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    # Most tests wait for another process most of the time, so one process more than cores keeps all cores busy.
    return max(1, min(len(os.sched_getaffinity(0)) + 1, memory // GIGABYTE))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Each process of a parallel run has a server and a folder of its own: roles, for one, belong to a whole server."""
    for name in ("TEST_POSTGRESQL", "TEST_SQLITE_FOLDER"):
        os.environ.pop(name, None)
    pg.dismiss_keepers()


def pytest_unconfigure() -> None:
    warm.dismiss_parent()
    shutil.rmtree(django_settings.SQLITE_FOLDER, ignore_errors=True)
    pg.dismiss_keepers()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        # Many quick files at the end keep all processes of a parallel run busy until then.
        items.sort(key=lambda item: [room not in item.path.parts for room in SLOW_ROOMS])
    for item in items:
        if item.nodeid.removeprefix("tests/").startswith(LONG):
            item.add_marker(pytest.mark.long)
        if LAYOUT and item.get_closest_marker("plain_layout"):
            item.add_marker(pytest.mark.skip(reason="about tables that are not partitioned"))
        if PLAIN and (needs := item.get_closest_marker("needs")) and "sqlite" not in item.name:
            item.add_marker(pytest.mark.skip(reason=f"ABILITIES=plain: no {needs.args[0].replace('_', ' ')}"))
        fixtures = getattr(item, "fixturenames", ())
        if "committed" in fixtures:
            item.add_marker(pytest.mark.django_db(transaction=True, databases=list(ALIASES.values())))
        elif "database" in fixtures:
            item.add_marker(pytest.mark.django_db(databases=list(ALIASES.values())))


def pytest_deselected(items: list[pytest.Item]) -> None:
    config = items[0].config
    config.stash[LONG_ONES] = sum(item.get_closest_marker("long") is not None for item in items)
    if hasattr(config, "workeroutput"):
        config.workeroutput["long_ones"] = config.stash[LONG_ONES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Each process of a parallel run leaves out the same tests."""
    node.config.stash[LONG_ONES] = getattr(node, "workeroutput", {}).get("long_ones", 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """In CI a missing program is a failure: a green run must not hide that nothing was tested."""
    report = yield
    if "CI" in os.environ and report.skipped and isinstance(report.longrepr, tuple):  # an expected failure has another
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith("needs "):
            report.outcome, report.longrepr = "failed", f"{reason} (missing on this machine)"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    ran = sum(len(terminalreporter.stats.get(outcome, [])) for outcome in ("passed", "failed", "error"))
    versions = f"Python {platform.python_version()}, Django {django.__version__}, PostgreSQL {pg.version()} and SQLite"
    if ran:
        terminalreporter.write_line(f"\nRan {ran:,} tests on {versions}.")
    if left := config.stash.get(LONG_ONES, 0):
        terminalreporter.write_line(
            f"Left out: {left:,} tests of the long tier (races, dying processes, soak, failover, browser, tutorial). "
            "To run them: .venv/bin/python -m pytest -m long"
        )


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    cleaning.install()
    if LAYOUT:
        with django_db_blocker.unblock():
            partition_history("postgresql", Period.DAY, ["default"])


@pytest.fixture(autouse=bool(LAYOUT))
def archived_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Move tasks that succeed to partitioned history before the next statement of the test."""
    archive_at_once(monkeypatch)


@pytest.fixture(params=sorted(ALIASES))
def on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The alias of the database that the test is about. Every test of the queue runs on each."""
    alias = ALIASES[request.param]
    monkeypatch.setattr(CurrentDatabase, "current", alias)
    return alias


@pytest.fixture
def database(on: str, db: None) -> Iterator[str]:
    """`on`, inside a transaction that is rolled back."""
    yield on
    clock.shift(timedelta(0), on)


@pytest.fixture
def committed(on: str, transactional_db: None) -> Iterator[str]:
    """`on`, with real commits, for tests with several connections or processes."""
    yield on
    clock.shift(timedelta(0), on)


@pytest.fixture
def travel(on: str) -> Callable[[float], None]:
    """Move the queue's clock forward by seconds."""
    gone = timedelta(0)

    def forward(seconds: float) -> None:
        nonlocal gone
        gone += timedelta(seconds=seconds)
        clock.shift(gone, on)

    return forward


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """Give the default backend these OPTIONS for the length of the test."""

    def give(**options: Any) -> None:
        settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": options}}

    return give


@pytest.fixture(scope="session")
def spare_server() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def server(spare_server: Server, django_db_blocker: Any) -> Iterator[Server]:
    """A PostgreSQL server that the test may mistreat, and that the alias `postgresql` points at meanwhile."""
    with django_db_blocker.unblock(), spare_server.in_use():
        spare_server.clean()
        yield spare_server
