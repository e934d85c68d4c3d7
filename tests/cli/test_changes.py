"""Changes by operators, from the console and from the shell: who did it and why is kept, and nothing else happens."""

from __future__ import annotations

import getpass
import io
import socket
from datetime import timedelta

import pytest

from django_tasks_retry import Abort, clock, taskqueue
from django_tasks_retry.cli import output
from django_tasks_retry.models import OperatorEvent, Queue, Task, TaskEvent
from django_tasks_retry.rules.status import Status
from django_tasks_retry.selection import matching
from tests import tasks
from tests.admin import scene
from tests.admin.conftest import make_user, operator, session_with  # noqa: F401

CONSOLE = "/admin/django_tasks_retry"
PERMISSIONS = {
    "retry": "retry_task", "reschedule": "retry_task", "cancel": "cancel_task", "pause": "pause_queue",
    "resume": "pause_queue", "stop": "control_worker",
}  # fmt: skip


def shell_user() -> str:
    return f"cli:{getpass.getuser()}@{socket.gethostname()}"


@pytest.fixture(autouse=True)
def _no_sudo(monkeypatch):
    monkeypatch.delenv("SUDO_USER", raising=False)


def subject_of(verb: str) -> str:
    """Something that the verb can be applied to."""
    if verb == "stop":
        scene.sign_on()
        return scene.WORKERS[0]
    if verb in {"pause", "resume"}:
        if verb == "resume":
            taskqueue.pause("emails", by="x", reason="y")
        return "emails"
    task = Task.objects.enqueue(tasks.noop, eta=timedelta(hours=1))
    if verb == "retry":
        task.cancel()
    return str(task.pk)


def last_change(verb: str, subject: str) -> tuple[str, str, str]:
    """Kind, actor and reason of what was written about it last."""
    if verb in {"pause", "resume", "stop"}:
        event = OperatorEvent.objects.latest("id")
        assert event.subject == subject
        return event.kind, event.actor, event.reason
    of = Task.objects.get(retry_of=subject).pk if verb == "retry" else subject
    event = TaskEvent.objects.filter(task_id=of).latest("id")
    return event.kind, event.actor, event.data["reason"]


def address_of(verb: str, subject: str) -> str:
    page = {"pause": "queue", "resume": "queue", "stop": "worker"}.get(verb, "task")
    return f"{CONSOLE}/{page}/{subject}/{'run-now' if verb == 'reschedule' else verb}/"


KINDS = {
    "retry": "task.retried", "reschedule": "task.rescheduled", "cancel": "task.cancelled", "pause": "queue.paused",
    "resume": "queue.resumed", "stop": "worker.stop_asked",
}  # fmt: skip


@pytest.mark.fault("change_without_author_or_reason")
@pytest.mark.parametrize("verb", sorted(KINDS))
@pytest.mark.parametrize("door", ["console", "shell"])
def test_every_change_is_kept_with_its_author_and_reason(door, verb, cli, session_with):  # noqa: F811
    subject = subject_of(verb)
    if door == "shell":
        when = ["--now"] if verb == "reschedule" else []
        assert cli(verb, subject, *when, "--reason", "INC-204").code == 0
        author = shell_user()
    else:
        view = {"pause": "view_queue", "resume": "view_queue", "stop": "view_worker"}.get(verb, "view_task")
        client = session_with(view, PERMISSIONS[verb])
        assert client.post(address_of(verb, subject), {"reason": "INC-204"}).status_code == 302
        author = f"user:{client.session['_auth_user_id']}"
    assert last_change(verb, subject) == (KINDS[verb], author, "INC-204")


@pytest.mark.parametrize("verb", sorted(KINDS))
def test_without_the_permission_the_console_changes_nothing(verb, database, session_with):  # noqa: F811
    subject = subject_of(verb)
    before = TaskEvent.objects.count(), OperatorEvent.objects.count()
    client = session_with("view_task", "view_queue", "view_worker", *(set(PERMISSIONS.values()) - {PERMISSIONS[verb]}))
    assert client.post(address_of(verb, subject), {"reason": "INC-204"}).status_code == 403
    assert before == (TaskEvent.objects.count(), OperatorEvent.objects.count())


class TestMany:
    @pytest.fixture
    def stored(self, database) -> list[Task]:
        return Task.objects.enqueue_many([(tasks.noop,)] * 3)

    def test_they_need_a_reason_and_a_yes(self, cli, stored):
        refused = cli("cancel", "status:ready")
        assert (refused.code, refused.out) == (2, "")
        assert "3 tasks will be cancelled. Say why" in refused.err
        refused = cli("cancel", "status:ready", "--reason", "x")
        assert (refused.code, refused.err) == (
            2,
            "3 tasks will be cancelled. Cannot ask for confirmation without a terminal: pass --yes.\n",
        )
        assert cli("cancel", "status:ready", "-y").code == 2
        assert not Task.objects.cancelled().exists()
        assert cli("cancel", "status:ready", "--reason", "x", "-y") == (0, "3 tasks cancelled.\n", "")
        assert Task.objects.cancelled().count() == 3

    @pytest.mark.parametrize(("typed", "is_done"), [("y\n", True), ("n\n", False), ("", False)])
    def test_on_a_terminal_they_are_asked_about(self, typed, is_done, cli, stored, monkeypatch):
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        monkeypatch.setattr("sys.stdin", Terminal(typed))
        monkeypatch.setattr(output, "is_terminal", lambda _stream: True)
        answer = cli("cancel", "status:ready", "--reason", "x")
        assert "3 tasks will be cancelled. Go on? [y/N]" in answer.err
        assert answer.code == (0 if is_done else 5)
        assert Task.objects.cancelled().count() == (3 if is_done else 0)

    def test_a_dry_run_changes_nothing(self, cli, stored):
        assert cli("cancel", "status:ready", "--dry-run").out == "3 tasks would be cancelled.\n"
        assert not Task.objects.cancelled().exists()

    def test_nobody_means_all_by_saying_nothing(self, cli, stored):
        assert cli("cancel", "--reason", "x", "-y").code == 2
        assert not Task.objects.cancelled().exists()

    def test_nobody_means_many_by_a_few_digits(self, cli, stored):
        answer = cli("cancel", str(stored[0].pk)[:8], "--reason", "x", "-y")
        assert answer.code == 2
        assert "Give more of it" in answer.err
        assert not Task.objects.cancelled().exists()

    @pytest.mark.fault("enqueue_during_a_bulk_change")
    def test_none_is_changed_that_came_while_others_were(self, cli, stored, monkeypatch):
        """Somebody enqueues whenever progress is told: while tasks are counted, and while they are changed."""
        monkeypatch.setattr(matching, "PAGE", 2)
        monkeypatch.setattr(output.Output, "progress", lambda *_told: Task.objects.enqueue(tasks.noop))
        assert cli("cancel", "status:ready", "--reason", "x", "-y").out == "3 tasks cancelled.\n"
        assert set(Task.objects.cancelled()) == set(stored)
        assert Task.objects.pending().exists()

    def test_pages_take_each_task_once(self, cli, database, monkeypatch):
        monkeypatch.setattr(matching, "PAGE", 10)
        stored = Task.objects.enqueue_many([(tasks.noop,)] * 35)
        taskqueue.cancel([task.pk for task in stored])
        assert cli("retry", "status:cancelled", "--reason", "x", "-y", "--json").record == {
            "action": "retry", "done": 35, "skipped": 0,
        }  # fmt: skip
        assert Task.objects.filter(retry_of__in=stored).count() == 35
        assert cli("retry", "status:cancelled,ready", "--reason", "x", "-y").code == 5

    def test_the_ids_of_one_subcommand_are_words_for_the_next(self, cli, stored, monkeypatch):
        ids = cli("list", "status:ready", "--ids").out
        assert cli("cancel", *ids.split(), "--reason", "x", "-y").code == 0
        monkeypatch.setattr("sys.stdin", io.StringIO(ids))
        fresh = cli("retry", "-", "--reason", "x", "-y", "--ids").out.split()
        assert fresh == [str(pk) for pk in Task.objects.pending().order_by("pk").values_list("pk", flat=True)]
        assert len(fresh) == 3


class TestRetry:
    @pytest.fixture
    def cancelled(self, database) -> list[Task]:
        stored = Task.objects.enqueue_many([(tasks.noop,)] * 4)
        taskqueue.cancel([task.pk for task in stored])
        return stored

    def test_into_another_queue_with_another_priority(self, cli, cancelled):
        assert cli("retry", cancelled[0].pk, "--queue", "emails", "--priority", 7).code == 0
        fresh = Task.objects.get(retry_of=cancelled[0])
        assert (fresh.queue, fresh.priority) == ("emails", 7)

    @pytest.mark.parametrize("wish", [["--queue", "emials"], ["--priority", "101"]])
    def test_a_wish_that_cannot_be_met_changes_nothing(self, wish, cli, cancelled):
        assert cli("retry", cancelled[0].pk, *wish).code in {2, 5}
        assert not Task.objects.pending().exists()

    def test_spread_over_some_time(self, cli, cancelled):
        began = clock.now(Task.objects.db)
        assert cli("retry", "status:cancelled", "--spread", "40m", "--reason", "x", "-y").code == 0
        waits = [(task.eta - began).total_seconds() // 60 for task in Task.objects.pending().order_by("eta")]
        assert waits == [0, 10, 20, 30]

    def test_some_go_first_and_the_rest_waits_for_them(self, cli, cancelled):
        words = ("retry", "status:cancelled", "--canary", 2, "--continue-if", "0.5", "--spread", "40m")
        answer = cli(*words, "--reason", "x", "-y")
        assert answer.code == 0
        assert "The rest waits for the first 2 tasks." in answer.err
        first, rest = (list(Task.objects.pending().filter(waits_for__isnull=no)) for no in (True, False))
        assert (len(first), len(rest)) == (2, 2)
        leases = taskqueue.claim("w", limit=9)
        taskqueue.finish([taskqueue.Completed(leases[0], None), taskqueue.Failed(leases[1], Abort("x"))])
        assert len(taskqueue.CanarySweep()()) == 2
        why = cli("show", rest[0].pk)
        assert "scheduled for" in why.out

    @pytest.mark.parametrize("wish", [["--canary", "0"], ["--canary", "5000"], ["--canary", "1", "--continue-if", "2"]])
    def test_a_canary_that_is_none_is_refused(self, wish, cli, cancelled):
        assert cli("retry", "status:cancelled", *wish, "--reason", "x", "-y").code == 2
        assert not Task.objects.pending().exists()

    def test_what_was_retried_before_is_left_out_unless_it_is_meant(self, cli, cancelled):
        assert cli("retry", cancelled[0].pk).code == 0
        refused = cli("retry", cancelled[0].pk)
        assert refused.code == 5
        assert "--again takes them too" in refused.err
        assert cli("retry", cancelled[0].pk, "--again").code == 0
        assert Task.objects.filter(retry_of=cancelled[0]).count() == 2

    def test_a_task_in_the_wrong_status_is_refused(self, cli):
        task = Task.objects.enqueue(tasks.noop)
        answer = cli("retry", task.pk)
        assert answer.code == 5
        assert "that takes success or failed or cancelled ones" in answer.err
        assert cli("retry", "ffff0000").code == 4


def test_waiting_tasks_are_made_due_now_or_later(cli):
    task, began = Task.objects.enqueue(tasks.noop, eta=timedelta(hours=1)), clock.now(Task.objects.db)
    assert cli("reschedule", task.pk).code == 2, "it must be said when"
    assert cli("reschedule", task.pk, "--in", "10m").out == "1 task rescheduled.\n"
    assert timedelta(minutes=10) <= Task.objects.get(pk=task.pk).eta - began < timedelta(minutes=20)
    assert cli("reschedule", task.pk, "--now").code == 0
    assert Task.objects.get(pk=task.pk).eta - began < timedelta(minutes=5)


def test_a_queue_that_is_none_is_not_paused(cli):
    answer = cli("pause", "emials", "--reason", "x")
    assert answer.code == 2
    assert "Did you mean 'emails'?" in answer.err
    assert not Queue.objects.exists()
    assert cli("resume", "emails").code == 5


def test_a_worker_is_found_by_the_beginning_of_its_name(cli):
    scene.sign_on()
    assert cli("stop", "web-").code == 2
    assert cli("stop", "nobody").code == 4
    assert cli("stop", "web-1").code == 0
    assert cli("stop", "web-1").code == 5


def test_sudo_does_not_hide_who_it_was(cli, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "olga")
    task = Task.objects.enqueue(tasks.noop)
    cli("cancel", task.pk)
    assert TaskEvent.objects.get(kind="task.cancelled").actor == f"cli:olga@{socket.gethostname()}"
    assert Task.objects.get(pk=task.pk).status == Status.CANCELLED
