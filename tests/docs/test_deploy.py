"""The deployment files are complete and well formed, and the commands in them run."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from django.core.management import load_command_class

from django_tasks_retry.durations import read_duration
from tests.docs.pages import DOCS, ROOT

DEPLOY = DOCS / "deploy"
UNIT = DEPLOY / "tasks-worker.service"


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str
    parser.read(UNIT)
    return parser


def compose() -> dict:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))


def manifests(file: str = "kubernetes.yaml") -> dict[tuple[str, str], dict]:
    documents = yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8"))
    return {(each["kind"], each["metadata"]["name"]): each for each in documents}


def pod(kind: str = "Deployment", name: str = "tasks-worker") -> dict:
    return manifests()[kind, name]["spec"]["template"]["spec"]


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


def test_kubernetes_accepts_the_manifests():
    schemas = pytest.importorskip("kubernetes_validate", reason="needs kubernetes-validate: pip install .[dev]")
    assert {kind for kind, _ in manifests()} == {"Secret", "ConfigMap", "Job", "Deployment", "Service"}
    for manifest in manifests().values():
        schemas.validate(manifest, "1.30", strict=True)


@pytest.mark.parametrize(
    ("schema", "file"),
    [("compose-spec", DEPLOY / "compose.yaml"), ("github-workflows", ROOT / ".github" / "workflows" / "release.yml")],
    ids=["compose", "release"],
)
def test_files_for_others_keep_their_schemas(schema, file):
    pytest.importorskip("check_jsonschema", reason="needs check-jsonschema: pip install .[dev]")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*check, file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_parts_of_the_cluster_fit_together():
    names = {kind: {name for each, name in manifests() if each == kind} for kind, _ in manifests()}
    pods = [pod("Job", "migrate-1-0"), pod("Deployment", "web"), pod()]
    containers = [container for each in pods for container in each["containers"]]
    for container in containers:
        [secrets, settings] = container["envFrom"]
        assert {secrets["secretRef"]["name"]} == names["Secret"]
        assert {settings["configMapRef"]["name"]} == names["ConfigMap"]
    assert len({container["image"] for container in containers}) == 1
    for name in names["Deployment"]:
        spec = manifests()["Deployment", name]["spec"]
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    service, web = manifests()["Service", "web"]["spec"], manifests()["Deployment", "web"]["spec"]["template"]
    assert service["selector"] == web["metadata"]["labels"]
    assert service["ports"][0]["targetPort"] == containers[1]["ports"][0]["name"]
    assert (
        manifests("keda.yaml")["ScaledObject", "tasks-worker"]["spec"]["scaleTargetRef"]["name"] in names["Deployment"]
    )


def test_web_is_started_and_probed_alike_everywhere():
    [web] = pod("Deployment", "web")["containers"]
    assert web["command"] == compose()["services"]["web"]["command"]
    hosts = manifests()["ConfigMap", "app-settings"]["data"]["ALLOWED_HOSTS"].split(",")
    urls = (ROOT / "example_project" / "urls.py").read_text(encoding="utf-8")
    for probe in ("readinessProbe", "livenessProbe"):
        asked = web[probe]["httpGet"]
        assert f'path("{asked["path"].strip("/")}", health.' in urls
        assert asked["httpHeaders"] == [{"name": "Host", "value": hosts[0]}]


SERVE = """
from threading import Thread
from wsgiref.simple_server import make_server
from example_project.wsgi import application

server = make_server("127.0.0.1", 0, application)
Thread(target=server.serve_forever, daemon=True).start()
exec(PROBE.replace("8000", str(server.server_port)))
"""


def image(folder: Path) -> Path:
    """Copy what .dockerignore leaves for the image."""
    patterns = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name in (pattern[1:] for pattern in patterns if pattern.startswith("!")):
        ignored = shutil.ignore_patterns(*(pattern.removeprefix("**/") for pattern in patterns if "**" in pattern))
        copy = partial(shutil.copytree, ignore=ignored) if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    return folder


@pytest.mark.long
def test_the_commands_of_compose_run_in_the_image(tmp_path):
    services, folder = compose()["services"], image(tmp_path)
    given = {"SECRET_KEY": "s", "DATABASE_URL": f"sqlite:///{tmp_path}/db.sqlite3"}
    variables = {**services["web"]["environment"], **given, "PATH": os.environ["PATH"], "PYTHONPATH": str(folder)}

    def run(*words: str) -> None:
        command = [sys.executable, *words]
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    run(*services["migrate"]["command"][1:])
    alive = str(tmp_path / "alive")
    run(*(alive if word == "/tmp/alive" else word for word in services["worker"]["command"][1:]), "--drain")
    probe = services["web"]["healthcheck"]["test"][-1]
    run("-c", SERVE.replace("PROBE", repr(probe)))


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="needs systemd-analyze: apt-get install systemd")
def test_systemd_accepts_the_unit(tmp_path):
    text = re.sub(
        r"^ExecStart=\S+", f"ExecStart={sys.executable}", UNIT.read_text(encoding="utf-8"), flags=re.MULTILINE
    )
    copy = Path(tmp_path) / UNIT.name
    copy.write_text(text.replace("User=app", "User=root"))
    done = subprocess.run(["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False)
    assert UNIT.name not in done.stderr, done.stderr
