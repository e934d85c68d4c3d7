"""Packages that projects use beside the queue: `python -m tests.clients [name …]`.

For each a project is made, with one task that a worker runs and one page that opens. A line for each tells its version;
a run of all of them writes the table of docs/reference/stability.rst. Everything is installed into one environment, of
the main target.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import socket
from textwrap import dedent
from urllib.request import urlopen

from tests.conformance.sdist import cache_folder
from tests.first_hour import on_postgresql, postgresql
from tests.legs import ROOT, TARGET, find_interpreter, say
from tests.pg import PgCluster

SECONDS = 60
VERSIONS = ROOT / "docs" / "clients.json"


@dataclass(frozen=True)
class Client:
    """A package, what the project's settings and URLs have for it, and its page. A `server` serves that page itself."""

    package: str
    apps: tuple[str, ...] = ()
    middleware: tuple[str, ...] = ()
    urls: str = ""
    page: str = "/admin/django_tasks_retry/task/"
    settings: str = ""
    server: tuple[str, ...] = ()
    migrate: tuple[tuple[str, ...], ...] = (("migrate",),)
    tasks: str = ""
    """A task that is made by the package's own decorators."""
    enqueue: str = ""
    """Enqueues it, by the package's own means."""
    proof: str = ""
    """Checks what the package knows when the worker is through."""


WAGTAIL = (
    "wagtail.users", "wagtail.images", "wagtail.documents", "wagtail.search", "wagtail.admin", "wagtail",
    "modelcluster", "taggit",
)  # fmt: skip
TENANTS = """
    TENANT_MODEL, TENANT_DOMAIN_MODEL = "customers.Customer", "customers.Domain"
    DATABASES["default"]["ENGINE"] = "django_tenants.postgresql_backend"
    DATABASE_ROUTERS = ["django_tenants.routers.TenantSyncRouter"]
    SHARED_APPS, TENANT_APPS = INSTALLED_APPS, ["django.contrib.contenttypes"]
    PUBLIC_SCHEMA_URLCONF, SHOW_PUBLIC_IF_NO_TENANT_FOUND = ROOT_URLCONF, True
"""
STRUCTLOG = """
    import structlog
    JSON = {"()": structlog.stdlib.ProcessorFormatter, "processor": structlog.processors.JSONRenderer()}
    LOGGING = {
        "version": 1, "disable_existing_loggers": False, "formatters": {"json": JSON},
        "handlers": {"out": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["out"], "level": "INFO"},
    }
"""
CRONTASK = """
from crontask import cron
@cron("0 0 * * *")
@task
def nightly() -> int:
    return 1
"""
PERIODIC = """
from django_periodic_tasks.decorators import exactly_once
@task
@exactly_once
def once() -> int:
    return 1
"""
CLIENTS = (
    Client("django-unfold", ("unfold",)),
    Client(
        "django-debug-toolbar", ("debug_toolbar",), ("debug_toolbar.middleware.DebugToolbarMiddleware",),
        'path("__debug__/", include("debug_toolbar.urls"))', settings='INTERNAL_IPS = ["127.0.0.1"]',
    ),
    Client(
        "django-silk", ("silk",), ("silk.middleware.SilkyMiddleware",), 'path("silk/", include("silk.urls"))', "/silk/"
    ),
    Client(
        "django-prometheus", ("django_prometheus",), ("django_prometheus.middleware.PrometheusBeforeMiddleware",),
        'path("", include("django_prometheus.urls"))', "/metrics",
        'DATABASES["default"]["ENGINE"] = "django_prometheus.db.backends.postgresql"',
    ),
    Client("structlog", settings=STRUCTLOG),
    Client(
        "django-health-check", ("health_check",), page="/health/",
        urls='path("health/", HealthCheckView.as_view(checks=["health_check.Database"]))',
    ),
    Client(
        "django-crontask", ("crontask",), tasks=CRONTASK,
        enqueue="import shop.tasks; from crontask import scheduler; "
        "[job.func() for job in scheduler.get_jobs() if job.name == 'nightly']",
        proof='assert Task.objects.filter(func_path="shop.tasks.nightly", status="SUCCESS").count() == 1',
    ),
    Client(
        "django-periodic-tasks", ("django_periodic_tasks",), page="/admin/django_periodic_tasks/scheduledtask/",
        tasks=PERIODIC, enqueue="from django_periodic_tasks.models import ScheduledTask; ScheduledTask.objects.create("
        "name='once', task_path='shop.tasks.once', cron_expression='0 0 * * *').enqueue_now()",
        proof="from django_periodic_tasks.models import TaskExecution; "
        "assert TaskExecution.objects.get().status == TaskExecution.Status.COMPLETED",
    ),
    Client(
        "django-tasks-monitor", ("tasks_monitor",), page="/admin/tasks_monitor/taskrecord/",
        proof="from tasks_monitor.models import TaskRecord; assert TaskRecord.objects.get().status == 'SUCCESSFUL'",
    ),
    Client("wagtail", WAGTAIL, urls='path("cms/", include("wagtail.admin.urls"))', page="/cms/"),
    Client("django-tenants", ("django_tenants", "customers"), settings=TENANTS,
           migrate=(("makemigrations", "customers"), ("migrate_schemas", "--shared"))),
    # Behind this package: it has a runworker of its own.
    Client("channels", settings='INSTALLED_APPS += ["channels"]',
           server=("daphne", "-p", "PORT", "project.asgi:application")),
    Client("daphne", ("daphne",), server=("daphne", "-p", "PORT", "project.asgi:application")),
    Client("uvicorn", server=("uvicorn", "--port", "PORT", "project.asgi:application")),
    Client("gunicorn", server=("gunicorn", "--preload", "--bind", "127.0.0.1:PORT", "project.wsgi")),
)  # fmt: skip

SETTINGS = """
    SECRET_KEY, DEBUG, ALLOWED_HOSTS, USE_TZ, STATIC_URL = "x", True, ["*"], True, "static/"
    ROOT_URLCONF, DEFAULT_AUTO_FIELD = "project.urls", "django.db.models.BigAutoField"
    WAGTAIL_SITE_NAME, WAGTAILADMIN_BASE_URL = "site", "http://localhost"
    INSTALLED_APPS = [*APPS, *(f"django.contrib.{app}" for app in (
        "admin", "auth", "contenttypes", "sessions", "messages", "staticfiles", "postgres")),
        "django_tasks_retry", "shop"]
    MIDDLEWARE = [*MIDDLE, "django.contrib.sessions.middleware.SessionMiddleware",
                  "django.contrib.auth.middleware.AuthenticationMiddleware",
                  "django.contrib.messages.middleware.MessageMiddleware"]
    TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {
        "context_processors": [f"django.{name}" for name in (
            "template.context_processors.request", "contrib.auth.context_processors.auth",
            "contrib.messages.context_processors.messages")]}}]
    TASKS = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend"}}
"""
FILES = {
    "project/urls.py": """
    from django.contrib import admin
    from django.http import HttpResponse
    from django.urls import include, path
    HEALTH
    def page(request):
        from shop.tasks import double
        return HttpResponse(double.enqueue(21).id)
    urlpatterns = [path("admin/", admin.site.urls), path("page/", page), URLS]
    """,
    "project/wsgi.py": "from django.core.wsgi import get_wsgi_application\napplication = get_wsgi_application()\n",
    "project/asgi.py": "from django.core.asgi import get_asgi_application\napplication = get_asgi_application()\n",
    "shop/tasks.py": """
    from django.tasks import task
    @task
    def double(number: int) -> int:
        return number * 2
    """,
    "customers/__init__.py": "",
    "customers/models.py": """
    from django_tenants.models import DomainMixin, TenantMixin
    class Customer(TenantMixin): pass
    class Domain(DomainMixin): pass
    """,
}
ASK = """
import django; django.setup()
from django.contrib.auth.models import User
from django.test import Client
client = Client()
client.force_login(User.objects.create_superuser("ann"))
answer = client.get(PAGE)
assert answer.status_code == 200, (answer.status_code, answer.content[:500])
assert client.get("/page/").status_code == 200
ENQUEUE
"""
RAN = """
import django; django.setup()
from django_tasks_retry.models import Task
task = Task.objects.get(func_path="shop.tasks.double")
assert (task.status, task.outcome.result) == ("SUCCESS", 42), (task.status, task.last_error)
assert not Task.objects.exclude(status="SUCCESS").exists()
PROOF
"""


def main(names: Sequence[str]) -> int:
    interpreter = find_interpreter(TARGET.python)
    if interpreter is None:
        say(f"there is no Python {TARGET.python} on this machine")
        return 1
    python, rows = install(interpreter), []
    with tempfile.TemporaryDirectory(prefix="dtr-clients-") as scratch, postgresql() as server:
        for client in (client for client in CLIENTS if not names or client.package in names):
            try:
                visit(client, python, Path(scratch) / client.package.replace("-", "_"), server)
                rows.append((client.package, version(python, client.package), "passed"))
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                rows.append((client.package, version(python, client.package), f"FAILED: {error}"))
            say(f"{rows[-1][0]:22} {rows[-1][1]:8} {rows[-1][2]}")
    passed, main = [row for row in rows if row[2] == "passed"], f"Django {version(python, 'django')}"
    say(f"{len(passed)} of {len(rows)} with Python {TARGET.python}, {main}")
    if not names:
        found = {"with": f"Python {TARGET.python}, {main}", "versions": {name: number for name, number, _ in passed}}
        VERSIONS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return int(len(passed) < len(rows))


def install(interpreter: Path) -> Path:
    """Return the Python of an environment with all of them, and this package as it is now."""
    folder = cache_folder() / "clients"
    python = folder / "bin" / "python"
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    wanted = [f"{ROOT}[postgres]", f"Django=={TARGET.django}.*", *(client.package for client in CLIENTS)]
    subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *wanted], check=True)
    return python


def version(python: Path, package: str) -> str:
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip()


def visit(client: Client, python: Path, folder: Path, server: PgCluster) -> None:
    write(client, folder, server)
    variables = {"DJANGO_SETTINGS_MODULE": "project.settings", "PATH": f"{python.parent}:/usr/bin:/bin"}

    def run(*words: str) -> None:
        done = subprocess.run([python, *words], cwd=folder, env=variables, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(words)[:60]}: {done.stderr[-1500:]}"

    for command in client.migrate:
        run("-m", "django", *command)
    run("-m", "django", "check")
    if client.server:
        serve(client, python, folder, variables)
    else:
        run("-c", ASK.replace("PAGE", repr(client.page)).replace("ENQUEUE", client.enqueue))
    run("-m", "django", "runworker", "--drain")
    run("-c", RAN.replace("PROOF", client.proof))


def write(client: Client, folder: Path, server: PgCluster) -> None:
    facts = {"APPS": list(client.apps), "MIDDLE": list(client.middleware)}
    health = "from health_check.views import HealthCheckView" if "health_check" in client.apps else ""
    head = "".join(f"{key} = {value!r}\n" for key, value in facts.items()) + on_postgresql(folder.name, server)
    texts = {**FILES, "project/settings.py": SETTINGS, "shop/__init__.py": "", "project/__init__.py": ""}
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        made = dedent(text).replace("URLS]", f"{client.urls}]").replace("HEALTH", health)
        (folder / path).write_text(made, encoding="utf-8")
    with (folder / "shop" / "tasks.py").open("a", encoding="utf-8") as file:
        file.write(client.tasks)
    settings = folder / "project" / "settings.py"
    settings.write_text(head + settings.read_text(encoding="utf-8") + dedent(client.settings), encoding="utf-8")


def serve(client: Client, python: Path, folder: Path, variables: dict[str, str]) -> None:
    """Open the page through the server's own process."""
    with socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    command = [str(python), "-m", *(word.replace("PORT", port) for word in client.server)]
    with subprocess.Popen(command, cwd=folder, env=variables, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + SECONDS
            while True:
                try:
                    with urlopen(f"http://127.0.0.1:{port}/page/", timeout=SECONDS) as answer:
                        assert answer.status == 200
                    return
                except OSError:
                    assert process.poll() is None, f"the server ended: {process.stderr.read()[-1500:]!r}"
                    assert time.monotonic() < deadline, "the server does not answer"
                    time.sleep(0.1)
        finally:
            process.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
