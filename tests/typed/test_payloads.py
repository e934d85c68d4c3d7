"""Encrypted and offloaded payloads through the whole life of a task, on both databases."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.files.storage import storages
from django.db.models import TextField
from django.db.models.functions import Cast
from django.test import TestCase

from django_tasks_retry import call, chain, taskqueue
from django_tasks_retry.analysis.preflight import misfit
from django_tasks_retry.bridge import Context
from django_tasks_retry.compat import task
from django_tasks_retry.conf import options
from django_tasks_retry.errors import Abort, InvalidOptions, PayloadUnavailable
from django_tasks_retry.models import Step, Task, TaskResult
from django_tasks_retry.payloads import files_of, is_hidden, is_own, opened_call
from django_tasks_retry.rules.status import FINISHED, Status
from django_tasks_retry.taskqueue.enqueue.insert import insert
from django_tasks_retry.taskqueue.new_tasks import same_call
from django_tasks_retry.testing import Tasks
from django_tasks_retry.verify.audit import verify
from tests.admin.unguarded import overwrite
from tests.cli.conftest import tasks_command
from tests.steps import enqueue, now_of
from tests.typed import tasks as typed
from tests.typed.tasks import seen

OLD, NEW, OTHER = (Fernet.generate_key().decode() for _ in range(3))
SECRET = "4111-1111"
LARGE = SECRET + "x" * 40_000


@task
def pay(card: str, amount: int = 1) -> str:
    seen.append((card, amount))
    return f"paid {card}"


@task
def fail(card: str) -> None:
    raise Abort("no")


@task
async def pay_async(card: str) -> str:
    seen.append(card)
    return card


@task
def note(*args: Any) -> None:
    seen.append(args)


@task(takes_context=True)
def pay_all(context: Context, cards: list[str]) -> list[str]:
    seen.append((context.task_result.args, context.step("first", str.upper, "secret-step")))
    return list(context.gather("all", [call(pay, card) for card in cards]))


@pytest.fixture
def encrypted(configure: Callable[..., None]) -> None:
    configure(PAYLOAD_KEYS=[NEW, OLD])


@pytest.fixture
def folder(settings: Any, tmp_path: Path, configure: Callable[..., None]) -> Path:
    settings.STORAGES = {
        **settings.STORAGES,
        "payloads": {
            "BACKEND": "django.core.files.storage.FileSystemStorage",
            "OPTIONS": {"location": str(tmp_path)},
        },
    }
    configure(PAYLOAD_STORAGE="payloads")
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def prune(*statuses: Status) -> None:
    keep = {each: 1e-6 if not statuses or each in statuses else None for each in FINISHED}
    with TestCase.captureOnCommitCallbacks(using=taskqueue.database(), execute=True):
        list(taskqueue.prune(keep=keep))


def everything_stored(using: str) -> str:
    """All that the database holds about tasks, as text."""
    found: list[str] = []
    for model, columns in ((Task, ("args", "kwargs", "on_failure")), (TaskResult, ("result",)), (Step, ("result",))):
        for column in columns:
            found += map(
                str, model._base_manager.annotate(text=Cast(column, TextField())).values_list("text", flat=True)
            )
    return "\n".join(found)


# Encryption


@pytest.mark.parametrize("function", [pay, pay_async])
def test_the_database_holds_neither_argument_nor_result_of_an_encrypted_call(
    harness: Tasks, database: str, encrypted: None, function: Any
) -> None:
    made = enqueue(function, SECRET)
    assert made.args == [SECRET], "the caller has what it gave"
    harness.run_due()
    assert function.get_result(str(made.pk)).return_value.endswith(SECRET)
    assert seen
    assert SECRET not in everything_stored(database)
    assert "gAAAA" in everything_stored(database)


def test_a_plain_queue_stores_what_it_always_did(harness: Tasks) -> None:
    made = enqueue(pay, SECRET, kwargs={"amount": 2})
    harness.run_due()
    assert (now_of(made).args, now_of(made).kwargs) == ([SECRET], {"amount": 2})
    assert TaskResult.objects.get(pk=made.pk).result == f"paid {SECRET}"


def test_typed_arguments_and_defaults_are_encrypted_after_they_were_written(harness: Tasks, encrypted: None) -> None:
    result = typed.take_date.enqueue(date(2026, 1, 2))
    harness.run_due()
    assert seen == [date(2026, 1, 2)]
    assert typed.take_date.get_result(result.id).return_value == date(2026, 1, 2)


def test_many_calls_are_encrypted_and_each_gets_its_own(harness: Tasks, database: str, encrypted: None) -> None:
    made = Task.objects.enqueue_many([call(pay, f"{SECRET}-{n}") for n in range(5)])
    assert [each.args for each in made] == [[f"{SECRET}-{n}"] for n in range(5)]
    harness.run_due()
    assert [card for card, _ in seen] == [f"{SECRET}-{n}" for n in range(5)]
    assert SECRET not in everything_stored(database)


def test_the_first_key_writes_and_all_keys_read(harness: Tasks, configure: Callable[..., None]) -> None:
    configure(PAYLOAD_KEYS=[OLD])
    before = enqueue(pay, "before")
    configure(PAYLOAD_KEYS=[NEW, OLD])
    after = enqueue(pay, "after")
    harness.run_due()
    assert [card for card, _ in seen] == ["before", "after"]
    configure(PAYLOAD_KEYS=[NEW])
    assert pay.get_result(str(after.pk)).return_value == "paid after"
    with pytest.raises(PayloadUnavailable, match="none of OPTIONS"):
        opened_call(now_of(before))


@pytest.mark.parametrize(("keys", "why"), [([], "is empty"), ([OTHER], "none of OPTIONS")])
@pytest.mark.parametrize("function", [pay, pay_async])
def test_without_the_key_a_task_fails_for_good_and_says_so(
    harness: Tasks, configure: Callable[..., None], keys: list[str], why: str, function: Any
) -> None:
    configure(PAYLOAD_KEYS=[NEW])
    made, other = enqueue(function, SECRET), enqueue(note)
    configure(PAYLOAD_KEYS=keys)
    harness.run_due()
    error = now_of(made).last_error
    assert (now_of(made).status, error["code"], error["terminal"]) == ("FAILED", "UNREADABLE", True)
    assert why in error["message"]
    assert (now_of(other).status, seen) == ("SUCCESS", [()])
    configure(PAYLOAD_KEYS=[NEW])
    again = now_of(made).retry()
    harness.run_due()
    assert now_of(again).status == "SUCCESS", "with the key back, a retry does it"


def test_a_result_without_its_key_says_so_and_its_status_can_still_be_read(
    harness: Tasks, configure: Callable[..., None], encrypted: None
) -> None:
    made = enqueue(pay, SECRET)
    harness.run_due()
    configure()
    result = pay.get_result(str(made.pk))
    assert result.is_finished
    with pytest.raises(PayloadUnavailable, match="PAYLOAD_KEYS"):
        _ = result.return_value


def test_workflows_chains_and_calls_after_a_failure_are_encrypted_too(
    harness: Tasks, database: str, encrypted: None
) -> None:
    parent = enqueue(pay_all, [f"{SECRET}-a", f"{SECRET}-b"])
    chain(call(pay, SECRET), call(pay, 2)).enqueue()
    failed = enqueue(fail, SECRET, on_failure=call(note, SECRET).using(on_failure=call(note, SECRET)))
    harness.run_until_idle()
    assert pay_all.get_result(str(parent.pk)).return_value == [f"paid {SECRET}-a", f"paid {SECRET}-b"]
    assert ([[f"{SECRET}-a", f"{SECRET}-b"]], "SECRET-STEP") in seen
    assert (f"paid {SECRET}", 2) in seen
    assert (str(failed.pk), SECRET) in seen
    assert SECRET not in everything_stored(database)
    assert "SECRET-STEP" not in everything_stored(database)


def test_a_repeating_task_hands_its_arguments_on(harness: Tasks, folder: Path, configure: Callable[..., None]) -> None:
    configure(PAYLOAD_STORAGE="payloads", PAYLOAD_KEYS=[NEW], OFFLOAD_SIZE=1)
    enqueue(note, SECRET, interval=60)
    harness.run_due()
    harness.advance(minutes=1)
    harness.run_due()
    assert seen == [(SECRET,), (SECRET,)]


def test_unique_keys_and_debounces_meet_encrypted_holders(harness: Tasks, encrypted: None) -> None:
    first = enqueue(pay, SECRET, unique_key="k")
    assert enqueue(pay, "other", unique_key="k").pk == first.pk
    assert enqueue(pay, "other", unique_key="k", on_conflict="run_again").pk == first.pk
    newest = enqueue(pay, "newest", unique_key="k", on_conflict="replace")
    harness.run_due()
    assert (seen, newest.args) == ([("newest", 1)], ["newest"])


def test_what_another_language_enqueued_as_plain_json_runs_beside_encrypted_calls(
    harness: Tasks, configure: Callable[..., None]
) -> None:
    plain = enqueue(pay, "plain")
    configure(PAYLOAD_KEYS=[NEW])
    enqueue(pay, "hidden")
    harness.run_due()
    assert [card for card, _ in seen] == ["plain", "hidden"]
    assert now_of(plain).args == ["plain"]


def test_a_retry_with_other_arguments_is_encrypted_and_one_without_keeps_them(
    harness: Tasks, database: str, encrypted: None
) -> None:
    made = enqueue(pay, SECRET)
    harness.run_due()
    taskqueue.retry_one(made, call=([f"{SECRET}-other"], {}))
    taskqueue.retry_one(made)
    harness.run_due()
    assert [card for card, _ in seen] == [SECRET, f"{SECRET}-other", SECRET]
    assert SECRET not in everything_stored(database)


@pytest.mark.parametrize(
    ("value", "says"),
    [("one key", "list of keys"), (["short"], "number 1 is no Fernet key"), ([NEW, "k" * 44], "number 2")],
)
def test_a_key_that_is_none_is_refused_without_being_shown(
    configure: Callable[..., None], value: Any, says: str
) -> None:
    configure(PAYLOAD_KEYS=value)
    with pytest.raises(InvalidOptions, match=says) as refused:
        options()
    assert NEW not in str(refused.value)
    assert NEW not in repr(options.__wrapped__)


# Files


def test_a_large_call_and_result_are_files_and_a_small_one_stays_in_its_row(harness: Tasks, folder: Path) -> None:
    small, large = enqueue(pay, SECRET), enqueue(pay, LARGE)
    harness.run_due()
    assert now_of(small).args == [SECRET]
    form = now_of(large).kwargs["$payload"]
    assert [path.relative_to(folder).as_posix() for path in files(folder)] == [
        form["file"],
        TaskResult.objects.get(pk=large.pk).result["$payload"]["file"],
    ]
    assert form["size"] > len(LARGE)
    assert seen == [(SECRET, 1), (LARGE, 1)]
    assert pay.get_result(str(large.pk)).return_value == f"paid {LARGE}"


def test_a_file_is_encrypted_if_there_are_keys(
    harness: Tasks, folder: Path, configure: Callable[..., None], database: str
) -> None:
    configure(PAYLOAD_STORAGE="payloads", PAYLOAD_KEYS=[NEW])
    enqueue(pay, LARGE)
    harness.run_due()
    assert seen == [(LARGE, 1)]
    assert len(files(folder)) == 2
    assert not any(SECRET.encode() in path.read_bytes() for path in files(folder))
    assert SECRET not in everything_stored(database)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(Path.unlink, "is gone"), (lambda path: path.write_text('[["cheap"], {}]'), "SHA-256")],
)
def test_a_file_that_is_gone_or_was_changed_is_a_failure_for_good_that_says_so(
    harness: Tasks, folder: Path, spoil: Callable[[Path], Any], why: str
) -> None:
    made, other = enqueue(pay, LARGE), enqueue(note)
    spoil(*files(folder))
    harness.run_due()
    error = now_of(made).last_error
    assert (now_of(made).status, error["code"]) == ("FAILED", "UNREADABLE")
    assert why in error["message"]
    assert now_of(other).status == "SUCCESS"
    again = now_of(made).retry()
    harness.run_due()
    assert now_of(again).last_error["code"] == "UNREADABLE"


def test_a_storage_that_fails_costs_nothing(
    harness: Tasks, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Written, the payload stays in its row; read, the task is given back and tried again."""
    storage: Any = storages["payloads"]

    def broken(*_: Any) -> None:
        raise ConnectionError("away")

    with caplog.at_level(logging.WARNING), monkeypatch.context() as away:
        away.setattr(storage, "save", broken)
        inline = enqueue(pay, LARGE)
    assert now_of(inline).args == [LARGE]
    assert "stays in its row" in caplog.text
    offloaded = enqueue(pay, LARGE, queue="reports")
    with monkeypatch.context() as away:
        away.setattr(storage, "open", broken)
        harness.run_due(["reports"])
    assert (now_of(offloaded).status, now_of(offloaded).refunds) == ("PENDING", 1)
    harness.advance(seconds=2)
    harness.run_due()
    assert (now_of(offloaded).status, now_of(inline).status) == ("SUCCESS", "SUCCESS")


def test_a_retry_has_a_file_of_its_own_so_that_retention_of_the_first_costs_it_nothing(
    harness: Tasks, folder: Path, travel: Callable[[float], None]
) -> None:
    made = enqueue(pay, LARGE)
    harness.run_due()
    again = now_of(made).retry()
    assert len(files(folder)) == 3
    prune()
    assert [path.name for path in files(folder)] == [f"{again.pk.hex}-call"]
    harness.run_due()
    assert seen == [(LARGE, 1), (LARGE, 1)]


def test_files_go_with_their_tasks_by_retention_only(
    harness: Tasks, folder: Path, configure: Callable[..., None], tmp_path_factory: pytest.TempPathFactory
) -> None:
    done, waiting = enqueue(pay, LARGE), enqueue(pay, LARGE, eta=timedelta(days=1))
    harness.run_due()
    now_of(waiting).cancel()
    assert len(files(folder)) == 3, "an end is no reason to delete"
    prune(Status.SUCCESS)
    assert [path.name for path in files(folder)] == [f"{waiting.pk.hex}-call"]
    assert not Task.objects.filter(pk=done.pk).exists()
    exports = tmp_path_factory.mktemp("exports")
    configure(PAYLOAD_STORAGE="payloads", EXPORT_TO=str(exports))
    prune()
    assert not Task.objects.exists()
    [kept] = files(folder)
    assert any(kept.name in path.read_text() for path in exports.iterdir()), "the exported row names its file"


def test_a_damaged_row_does_not_keep_others_from_being_pruned_with_their_files(
    harness: Tasks, folder: Path, database: str
) -> None:
    enqueue(pay, LARGE)
    harness.run_due()
    broken = enqueue(note)
    harness.run_due()
    if database == "default":
        overwrite(broken, database, kwargs="{broken")
    prune()
    assert files(folder) == []


@pytest.mark.parametrize(
    "form",
    [
        {"v": 1, "size": 1, "file": "../../etc/passwd", "sha256": ""},
        {"v": 1, "size": 1, "file": "20260101/00000000000000000000000000000000-call", "sha256": ""},
        {"v": 1, "size": 1, "file": 7},
        {"v": 1, "encrypted": True, "data": "no token"},
        {"v": 1, "data": "[[["},
        {"v": 1, "data": "[1, 2]"},
        {"v": 1},
    ],
)
def test_a_planted_form_costs_itself_alone_and_reaches_no_other_file(
    harness: Tasks, folder: Path, configure: Callable[..., None], form: dict[str, Any]
) -> None:
    configure(PAYLOAD_STORAGE="payloads", PAYLOAD_KEYS=[NEW])
    other = enqueue(pay, LARGE)
    template = enqueue(note)
    [planted] = insert([same_call(template, kwargs={"$payload": form})], taskqueue.database())
    harness.run_due()
    assert now_of(planted).last_error["code"] == "UNREADABLE"
    assert now_of(other).status == "SUCCESS"
    kept = files(folder)
    prune(Status.FAILED)
    assert not Task.objects.filter(pk=planted.pk).exists()
    assert files(folder) == kept


def test_a_newer_form_waits_for_a_newer_worker(harness: Tasks, encrypted: None) -> None:
    template = enqueue(note)
    [newer] = insert([same_call(template, kwargs={"$payload": {"v": 2}})], taskqueue.database())
    harness.run_due()
    assert (now_of(newer).status, now_of(newer).refunds) == ("PENDING", 1)


# Console, command line, tools


def test_people_see_that_it_is_encrypted_how_large_and_where_it_is(
    harness: Tasks, folder: Path, configure: Callable[..., None], database: str, admin_client: Any
) -> None:
    configure(PAYLOAD_STORAGE="payloads", PAYLOAD_KEYS=[NEW])
    small, large = enqueue(pay, SECRET), enqueue(pay, LARGE)
    harness.run_due()
    for each, words in ((small, f"encrypted, {len(SECRET) + 9} bytes"), (large, f"{large.pk.hex}-call")):
        page = admin_client.get(f"/admin/django_tasks_retry/task/{each.pk}/change/").content.decode()
        for text in (page, tasks_command("show", each.pk).out, tasks_command("show", each.pk, "--json").out):
            assert words in text
            assert "encrypted" in text
            assert "gAAAA" not in text
            assert SECRET not in text
    assert admin_client.get(f"/admin/django_tasks_retry/task/{small.pk}/edit/").status_code == 403
    assert str(small.pk) in tasks_command("list", "arg:encrypted", "--json").out
    assert str(small.pk) not in tasks_command("list", "arg:gAAAA", "--json").out


def test_tools_take_hidden_calls_as_they_are(harness: Tasks, database: str, encrypted: None) -> None:
    made = enqueue(pay, SECRET)
    harness.assert_enqueued(pay, SECRET)
    assert misfit(made.func_path, now_of(made)) == ""
    harness.run_due()
    *_, audit = verify(database, 60)
    assert audit.breaches == []


def test_is_hidden_knows_the_form_alone() -> None:
    assert is_hidden({"$payload": {"v": 1}})
    for value in (None, [], {"$payload": 1}, {"$payload": {}, "more": 1}, "x"):
        assert not is_hidden(value)


@pytest.mark.parametrize(
    "name", ["../{}-call", "a/../../{}-call", "/tmp/{}-call", "..\\{}-call", "{}/../x", "{}\\..\\x"]
)
def test_a_name_that_leads_out_of_its_folder_is_no_task_s_own(database, folder, name):
    task = enqueue(pay, [LARGE])
    named = name.format(task.id.hex)
    assert not is_own(named, task.id)
    assert files_of([(task.id, f'{{"$payload": {{"file": {named!r}}}}}'.replace("'", '"'))]) == {}
