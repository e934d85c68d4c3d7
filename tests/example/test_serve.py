"""`manage.py demo --serve`: the address and the login that it prints open the console, and nothing outlives it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from http.cookiejar import CookieJar
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import psycopg
import pytest

from tests.example.programs import ROOT, environment, manage
from tests.pg import free_port

SECONDS = 90


@pytest.fixture
def serving(empty_postgresql):
    command = [sys.executable, "-u", str(ROOT / "manage.py"), "demo", "--serve", "--use-database-url"]
    process = subprocess.Popen(
        [*command, "--port", str(free_port())],
        cwd=ROOT,
        env=environment(DATABASE_URL=empty_postgresql),
        stdout=subprocess.PIPE,
        text=True,
    )
    yield process
    process.terminate()
    process.communicate(timeout=SECONDS)


def read_until(process: subprocess.Popen[str], words: str) -> str:
    text = ""
    while words not in text:
        line = process.stdout.readline()
        assert line, text
        text += line
    return text


def open_console(address: str, user: str, password: str) -> str:
    """As a person would: asked to log in, logging in, looking."""
    browser = build_opener(HTTPCookieProcessor(CookieJar()))
    form = browser.open(address)
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', form.read().decode())[1]
    answers = {"csrfmiddlewaretoken": token, "username": user, "password": password}
    page = browser.open(form.url, urlencode(answers).encode())
    assert page.url == address
    return page.read().decode()


def test_the_printed_address_and_login_open_the_console(serving, empty_postgresql):
    shown = read_until(serving, "Press Ctrl-C to stop.")
    address, user, password = re.search(r"Console: (\S+)  \(user (\S+), password (\S+)\)", shown).groups()
    assert "demo" not in (user, password)  # what everybody knows is for the example's own file only
    assert "reports" in open_console(address, user, password)  # a queue of the shop
    serving.send_signal(signal.SIGTERM)
    serving.communicate(timeout=SECONDS)
    with psycopg.connect(empty_postgresql) as owner:
        told = owner.execute("SELECT count(*) FROM django_tasks_retry_worker WHERE stopped_at IS NULL").fetchone()
        left = owner.execute("SELECT count(*) FROM django_tasks_retry_task WHERE interval > 0 AND finished_at IS NULL")
        assert (told, left.fetchone()) == ((0,), (0,))


def test_a_port_that_is_taken_is_said_before_anything_is_done(tmp_path):
    file = tmp_path / "x.sqlite3"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        refused = manage("demo", "--serve", "--use-database-url", "--port", port, DATABASE_URL=f"sqlite:///{file}")
    assert refused.returncode == 1
    assert f"Port {port} is taken" in refused.stderr
    assert not file.exists()
