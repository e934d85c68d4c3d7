"""A user's type checker and tasks with a policy: mypy with django-stubs, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from django_tasks_retry.compat import CORE_HAS_TASKS

ROOT = Path(__file__).resolve().parents[2]

USER_CODE = """
from datetime import timedelta
from typing import Any

from django.tasks import Task, TaskContext, TaskResult, task

from django_tasks_retry import Abort, Exponential, Retry, Snooze, lane, retry, schedule
from django_tasks_retry.bridge import Context


@task(queue_name="emails")
@retry(max_attempts=4, backoff=[300, 900, 3600], timeout=30, retry_on=(OSError,), abort_on=(ValueError,), atomic=False)
def send_receipt(order_id: int) -> str:
    return f"receipt {order_id}"


@task
@retry(backoff=Exponential(base=5, cap=3600), timeout=timedelta(minutes=1))
async def fetch(url: str, *, depth: int = 1) -> list[str]:
    raise Retry("later", after=60)


def wait(exception: BaseException, task_result: Any) -> float | None:
    return None


@task(takes_context=True)
@retry(backoff=wait)
def import_rows(context: TaskContext[Any, Any], rows: int) -> None:
    assert isinstance(context, Context)
    context.progress(1, rows, "importing")


result: TaskResult[[int], str] = send_receipt.enqueue(42)
variant: Task[[int], str] = send_receipt.using(priority=5)
text: str = send_receipt.call(order_id=42)
fetch.enqueue("https://example.com", depth=2)
import_rows.enqueue(7)
"""
MISTAKES = {
    'send_receipt.enqueue("x")': "arg-type",
    "send_receipt.enqueue()": "call-arg",
    "send_receipt.enqueue(order=42)": "call-arg",
    'send_receipt.using(priority=5).enqueue("x")': "arg-type",
    "fetch.enqueue(1)": "arg-type",
    'import_rows.enqueue("x")': "arg-type",
    'retry(max_attempts="4")': "arg-type",
    "retry(attempts=4)": "call-arg",
    "retry(retry_on=ValueError)": "arg-type",
    "Snooze()": "call-arg",
    "Abort()": "call-arg",
    'lane("a", running=2)': "arg-type",
    "schedule(seconds=60)": "arg-type",
}


def complaints_about(lines: list[str], folder: Path) -> dict[str, str]:
    """By line of the user's module, the code of mypy's complaint."""
    (folder / "user.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--follow-imports=silent", "user.py"]
    told = {"MYPYPATH": str(ROOT)}
    done = subprocess.run(command, cwd=folder, env=os.environ | told, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found = re.findall(r"^user\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    return {lines[int(number) - 1]: code for number, code in found}


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return complaints_about([*USER_CODE.splitlines(), *MISTAKES], tmp_path_factory.mktemp("typing"))


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_wrong_call_is_an_error(complaints: dict[str, str], mistake: str) -> None:
    assert complaints.get(mistake) == MISTAKES[mistake]


def test_right_calls_are_not(complaints: dict[str, str]) -> None:
    assert set(complaints) <= set(MISTAKES)


EXAMPLE = (Path(__file__).parent / "example.py").read_text(encoding="utf-8").splitlines()
WRONG = [
    'price.enqueue("x")',
    "price.enqueue()",
    'price.using(unique_key="a", prioritty=1)',
    "price.using(unique_key=1)",
    "price.using(unique_key='a', unique_for='1h')",
    "price.using(deadline=3600)",
    "price.using(on_failure=price.call)",
    "price.using(on_failure=call(price))",
    "Task.objects.enqueue(send_receipt, args=[1], prioritty=5)",
    'Task.objects.enqueue(send_receipt, args=[1], priority="high")',
    'Task.objects.enqueue("send_receipt")',
    'call(price, "x")',
    "call(price, 1, 2)",
    "call(split, 1)",
    "call(price, 1).using(unknown='a')",
    "chain(call(price, 1), call(price))",
    'chain(call(price, 1), call(announce, until="today"))',
    "chain(call(announce, until=date.today()))",
    "Task.objects.faild()",
    "def f(context: Context) -> None: context.step('s', split, 'x', 3)",
    "def f(context: Context) -> None: context.step('s', split)",
    "def f(context: Context) -> None: context.stpe('s', split)",
    "def f(context: Context) -> None: context.call('c', price, 'x')",
    "def f(context: Context) -> None: context.gather('g', [call(announce, until=date.today())])",
    "def f(context: Context) -> str: return context.call('c', price, 1)",
    "async def f(context: Context) -> None: await context.astep('s', fetch, 1)",
    "async def f(context: Context) -> None: await context.acall('c', price, 'x')",
    "async def f() -> None: await Task.objects.aenqueue(price, [1], que='a')",
    "async def f() -> None: await asignal(1)",
    "task(takes_context=True)(split)",
]


@pytest.fixture(scope="module")
def example_complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return complaints_about([*EXAMPLE, *WRONG], tmp_path_factory.mktemp("example"))


@pytest.mark.parametrize("wrong", WRONG)
def test_mypy_refuses_a_wrong_call(example_complaints: dict[str, str], wrong: str) -> None:
    assert wrong in example_complaints


def test_mypy_accepts_the_example(example_complaints: dict[str, str]) -> None:
    assert set(example_complaints) <= set(WRONG)


def test_pyright_agrees(tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    lines = [*EXAMPLE, *WRONG]
    (tmp_path / "user.py").write_text("\n".join(lines) + "\n")
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "strict", "reportMissingModuleSource": False}
    settings |= {"reportRedeclaration": False, "reportUnusedCoroutine": False, "reportUnusedCallResult": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert {lines[each["range"]["start"]["line"]] for each in found if each["severity"] == "error"} == set(WRONG), found


@pytest.mark.skipif(CORE_HAS_TASKS, reason="the backport is for Django 5.2")
def test_the_backport_is_typed_alike(tmp_path: Path) -> None:
    code = """
        from django_tasks import task
        from django_tasks_retry import retry

        @task(queue_name="emails")
        @retry(max_attempts=4)
        def send_receipt(order_id: int) -> str:
            return f"receipt {order_id}"

        send_receipt.enqueue(42)
        send_receipt.enqueue("x")
    """
    lines = textwrap.dedent(code).splitlines()
    assert complaints_about(lines, tmp_path) == {'send_receipt.enqueue("x")': "arg-type"}
