"""The deployment files are well formed, and the commands in them are commands that we have."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from django.core.management import load_command_class

from django_tasks_retry.durations import read_duration
from tests.docs.pages import DOCS

DEPLOY = DOCS / "deploy"
UNIT = DEPLOY / "tasks-worker.service"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(UNIT)
    return parser


def compose() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def pod() -> dict:
    [deployment] = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text(encoding="utf-8"))
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    return deployment["spec"]["template"]["spec"]


def dockerfile_command() -> list[str]:
    return json.loads(
        re.findall(r"^CMD (\[.+\])$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)[-1]
    )


def systemd_command() -> list[str]:
    return shlex.split(unit()["Service"]["ExecStart"])


def kubernetes_command() -> list[str]:
    [container] = pod()["containers"]
    return container["command"] + container["args"]


WORKERS = {
    "systemd": (systemd_command, lambda: float(unit()["Service"]["TimeoutStopSec"])),
    "compose": (
        lambda: compose()["services"]["worker"]["command"],
        lambda: read_duration(compose()["services"]["worker"]["stop_grace_period"]),
    ),
    "kubernetes": (kubernetes_command, lambda: float(pod()["terminationGracePeriodSeconds"])),
    "docker": (dockerfile_command, None),
}


@pytest.mark.parametrize("place", WORKERS)
def test_the_worker_is_started_with_options_that_exist_and_is_given_its_grace(place):
    command, patience = WORKERS[place]
    start = command().index("runworker")
    options = load_command_class("django_tasks_retry", "runworker").create_parser("manage.py", "runworker")
    given = options.parse_args(command()[start + 1 :])
    assert given.heartbeat_file
    if patience:
        assert patience() > given.grace


@pytest.mark.parametrize("place", ["compose", "kubernetes"])
def test_the_probe_asks_for_the_file_that_the_worker_touches(place, tmp_path):
    if place == "compose":
        probe = compose()["services"]["worker"]["healthcheck"]["test"][1:]
    else:
        probe = pod()["containers"][0]["livenessProbe"]["exec"]["command"]
    command, _ = WORKERS[place]
    file = command()[command().index("--heartbeat-file") + 1]
    assert probe[:3] == ["python", "-m", "django_tasks_retry.healthcheck"]
    assert file in probe
    here = tmp_path / "alive"
    here.touch()
    arguments = [sys.executable, *probe[1:]]
    assert subprocess.run([str(here) if part == file else part for part in arguments], check=False).returncode == 0


def test_compose_services_depend_on_services_that_exist():
    services = compose()["services"]
    for name, service in services.items():
        assert service.get("image") or (DEPLOY / service["build"]["context"]).is_dir(), name
        assert set(service.get("depends_on", {})) <= set(services), name
    assert (DEPLOY / services["web"]["build"]["context"] / services["web"]["build"]["dockerfile"]).exists()


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze: apt-get install systemd")
def test_systemd_accepts_the_unit(tmp_path):
    text = re.sub(
        r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    copy = Path(tmp_path) / UNIT.name
    copy.write_text(text.replace("User=app", "User=root"))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert UNIT.name not in done.stderr, done.stderr
