"""The documentation is true: what it shows runs, what it lists is what the code has."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
import tomllib

import pytest
from django.apps import apps
from django.core.management import BaseCommand, get_commands, load_command_class
from django.utils.module_loading import import_string
from django.utils.translation import override

import django_tasks_retry
from benchmarks.contenders import CEILING, OURS
from benchmarks.report import DRAIN, medians, read, shown
from django_tasks_retry import compat, conf, errors, testing
from django_tasks_retry.bridge import Context
from django_tasks_retry.rules.failure import Code
from django_tasks_retry.rules.status import Status
from django_tasks_retry.rules.transitions import MOVES, EventKind
from django_tasks_retry.selection.grammar import HELP, KEYS
from django_tasks_retry.taskqueue import EnqueueOptions
from django_tasks_retry.testing import Tasks
from tests.docs.pages import DOCS, README, ROOT, documented, name_of, pages, snippets
from tests.docs.project import Project
from tests.example.programs import environment

sys.path.insert(0, str(DOCS))
generate = importlib.import_module("generate")
sys.path.remove(str(DOCS))

PLAYED = [name_of(page) for page in pages() if any(s.language == "python" and not s.caption for s in snippets(page))]
CHECK_ID = re.compile(r"django_tasks_retry\.[EW]\d{3}")
APP = apps.get_app_config("django_tasks_retry")


def page(name: str) -> str:
    return (DOCS / f"{name}.rst").read_text(encoding="utf-8")


def listed_in(name: str, pattern: str) -> list[str]:
    """The literals of this form that stand first in a table's row."""
    return re.findall(rf"^   \* - ``({pattern})``", page(name), re.MULTILINE)


# What runs


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> dict[str, str]:
    """Page → why its snippets failed, of all pages that have any."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.docs.play", *PLAYED],
        cwd=ROOT,
        env=environment(DATABASE_URL=f"sqlite:///{tmp_path_factory.mktemp('docs') / 'docs.sqlite3'}"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize("name", PLAYED)
def test_the_snippets_of_each_page_run(name, played):
    assert name not in played, played[name]


@pytest.mark.long
def test_the_tutorial_can_be_followed_to_the_letter(tmp_path):
    Project(tmp_path).follow(snippets(DOCS / "tutorial.rst"))


@pytest.mark.long
def test_the_readme_start_can_be_followed_to_the_letter(tmp_path):
    Project(tmp_path).follow_readme(core_has_tasks=compat.CORE_HAS_TASKS)


# What is listed


def test_generated_parts_are_made_from_the_code_as_it_is():
    for name, text in generate.make().items():
        assert (DOCS / "generated" / name).read_text(encoding="utf-8") == text, (
            f"{name} is stale: run python docs/generate.py"
        )


def test_every_option_is_described_and_no_other():
    assert set(generate.OPTIONS) == set(conf.KEYS)
    assert set(generate.FLAGS) == {generate.name_of(action) for action in generate.runworker_options()}


def test_the_contract_page_shows_every_legal_move():
    assert ".. include:: generated/moves.rst" in page("contract")
    assert ".. include:: /generated/states.rst" in page("contract")
    assert generate.moves_table().count("   * - ") == len(MOVES) + 1
    told = re.search(r"<desc>(.*)</desc>", generate.make()["states-light.svg"])[1]
    assert all(f"{move.source or 'new'} to {move.target}" in told and move.name in told for move in MOVES)


def test_statuses_events_codes_and_reasons_are_listed():
    tables = listed_in("reference/events", "[A-Z_]+")
    assert tables == [*Status, *Code, *errors.LostReason]
    assert listed_in("reference/events", r"task\.\w+") == list(EventKind)


def test_every_system_check_is_listed():
    assert listed_in("reference/checks", CHECK_ID.pattern) == sorted(checks_made())


def test_every_command_and_its_options_are_documented():
    text = page("reference/commands") + (DOCS / "generated" / "runworker.rst").read_text(encoding="utf-8")
    ours = [name for name, app in get_commands().items() if app == "django_tasks_retry"]
    for name in ours:
        assert f"``manage.py {name}``" in text
        for flag in flags_of(name):
            assert f"``{flag}``" in text, f"{name} {flag}"


def flags_of(name: str) -> set[str]:
    """Without those that Django gives to every command."""
    return option_strings(load_command_class("django_tasks_retry", name)) - option_strings(BaseCommand())


def option_strings(command: BaseCommand) -> set[str]:
    return {flag for action in command.create_parser("manage.py", "x")._actions for flag in action.option_strings}


def autodocumented() -> dict[str, str]:
    """The objects that the API reference takes from the code, with the options of their directives."""
    found, module = {}, ""
    blocks = re.split(r"^(?=\.\. )", page("reference/api"), flags=re.MULTILINE)
    for block in blocks:
        if match := re.match(r"\.\. currentmodule:: (\S+)", block):
            module = match[1]
        elif match := re.match(r"\.\. auto\w+:: (\S+)\n((?:   :.*\n)*)", block):
            name = match[1] if match[1].startswith("django_tasks_retry.") else f"{module}.{match[1]}"
            found[name] = match[2]
    return found


def test_every_public_name_is_documented():
    documented = autodocumented()
    public = [f"django_tasks_retry.{name}" for name in django_tasks_retry.__all__]
    public += [f"django_tasks_retry.testing.{name}" for name in testing.__all__]
    public += [
        f"django_tasks_retry.errors.{name}"
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.TaskQueueError) and value is not errors.LeaseLost
    ]
    assert set(public) <= documented.keys()


def test_what_is_documented_from_the_code_says_something_there():
    for name in autodocumented():
        assert import_string(name).__doc__, name


def public(kind: type) -> set[str]:
    return {name for name in vars(kind) if not name.startswith("_")}


def test_every_option_of_enqueue_is_documented():
    for name in EnqueueOptions._fields:
        assert re.search(rf"\b{name}\b", page("reference/api")), name


def test_everything_that_a_context_and_the_test_harness_offer_is_documented():
    documented = autodocumented()
    for kind in (Context, Tasks):
        options = documented[f"django_tasks_retry{'.testing' if kind is Tasks else ''}.{kind.__name__}"]
        assert ":members:\n" in options
        undescribed = {name for name in public(kind) if not inspect.getdoc(getattr(kind, name))}
        assert undescribed <= {"using", "transactions", "lease", "steps"}
    for name in public(Tasks) - {"using", "close"}:
        assert f"``{name}(" in page("howto/testing"), name


def test_the_knobs_of_the_example_are_documented():
    known = set(
        re.findall(r'env(?:\.\w+)?\("(\w+)"', (ROOT / "example_project" / "settings.py").read_text(encoding="utf-8"))
    )
    text = (ROOT / "example_project" / "README.md").read_text(encoding="utf-8")
    assert known == set(re.findall(r"`([A-Z][A-Z_]+)(?:=\d+)?`", text))


def test_every_signal_is_documented():
    for signal in ("task_enqueued", "task_started", "task_finished"):
        assert hasattr(compat, signal)
        assert f"``{signal}``" in page("reference/signals")


def test_every_permission_that_the_console_asks_for_is_documented():
    own = {codename for model in APP.get_models() for codename, _ in model._meta.permissions}
    shown = {"view_task", "view_queue", "view_worker", "view_flowlimit"} | {
        f"{do}_schedule" for do in ("view", "add", "change", "delete")
    }
    listed = set(re.findall(r"``django_tasks_retry\.([a-z]+_[a-z_]+)``", page("howto/operate")))
    assert listed == own | shown


def test_no_page_names_a_setting_a_check_or_an_event_that_does_not_exist():
    text = documented().replace(page("names"), "") + README.read_text(encoding="utf-8")  # that page names others' words
    assert set(CHECK_ID.findall(text)) <= checks_made()
    assert set(re.findall(r"``(task\.[a-z_]+)``", text)) <= set(EventKind)
    assert set(re.findall(r"``((?:KEEP|RETRY|MAX|TIMEOUT|LEASE)_?[A-Z_]*)``", text)) <= {*conf.KEYS, *Code}


def checks_made() -> set[str]:
    return {f"{APP.name}.{code}" for code in re.findall(r'\bmessage\(\s*"([EW]\d{3})"', source())}


def source() -> str:
    return "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "django_tasks_retry").rglob("*.py")))


# The README


def test_the_readme_is_short_and_has_its_two_commands():
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 130
    commands = [line for line in lines if line.startswith("python3 -m venv .venv")]
    assert [command.split()[-1] for command in commands] == ["demo", "pytest"]


def test_the_readme_gives_the_rates_of_the_published_run_with_machine_date_and_command():
    text = README.read_text(encoding="utf-8")
    assert generate.readme(text) == text, "the README is stale: run python docs/generate.py"
    rates = {who: shown(value) for (what, who), value in medians(read(DOCS / "benchmarks")).items() if what == DRAIN}
    said = re.search(r"<!-- rates -->\n(.*?)<!-- end -->", text, re.DOTALL)[1]
    assert f"Two processes run {rates[OURS.name]} no-op" in said
    assert all(f"{who} {rate}" in said for who, rate in rates.items() if who not in (OURS.name, CEILING.name))
    run = json.loads(generate.RUN.read_text(encoding="utf-8"))
    assert all(run[each] in said for each in ("date", "machine", "command"))


def test_what_the_readme_links_to_is_there_also_for_who_reads_it_elsewhere():
    """Absolute, for the package's page; and to files that exist."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    pages = f"{urls['Source']}/blob/main/"
    pictures = pages.replace("github.com", "raw.githubusercontent.com").replace("/blob/", "/")
    linked = re.findall(r"\]\(([^)#]+)[^)]*\)", README.read_text(encoding="utf-8"))
    shown = re.findall(r"(?:src|srcset)=\"([^\"]+)\"", README.read_text(encoding="utf-8"))
    named = [url for url in urls.values() if "/blob/" in url]
    assert len(linked) > 20
    for target, base in [*((each, pages) for each in [*linked, *named]), *((each, pictures) for each in shown)]:
        assert target.startswith(base), target
        assert (ROOT / target.removeprefix(base)).exists(), target


def test_the_address_of_the_project_is_one_setting():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert all(f"{url}/".startswith(f"{urls['Source']}/") for url in urls.values()), "Source has moved: move the others"
    placeholder = f"`{urls['Source'].removeprefix('https://')}` is a placeholder until the first release"
    assert placeholder in " ".join((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split())


def test_the_search_table_and_the_help_name_every_key():
    section = page("howto/operate").partition(".. _searching:")[2].partition(".. _what-changed:")[0]
    rows = re.findall(r"^   \* - (.*)", section, re.MULTILINE)
    assert {key for row in rows for key in re.findall(r"``(\w+):", row)} == KEYS.keys()
    for language in ("en", "de", "fr", "es", "pt-br", "ja"):
        with override(language):
            assert set(re.findall(r"([a-z]+):", str(HELP))) == KEYS.keys() - {"id"}, language


def test_commands_that_contributors_are_told_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for module in re.findall(r"python -m ((?:tests|benchmarks)[\w.]*)", text):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module
    for path in re.findall(r"\b(?:docs|tests)/[\w/]+\.py|\.ci/run", text):
        assert (ROOT / path).exists(), path


def test_tests_that_the_documentation_names_exist():
    named = re.findall(r"(tests/[\w/]+\.py)(?:::(\w+))?", README.read_text(encoding="utf-8") + documented())
    for path, function in named:
        assert function in ((ROOT / path).read_text(encoding="utf-8") if function else ""), f"{path}::{function}"


def test_every_drawing_brings_its_own_paper():
    """An image does not know the colours of its page: black on nothing cannot be read on a dark one."""
    for drawing in DOCS.rglob("*.svg"):
        text = drawing.read_text(encoding="utf-8")
        assert "currentColor" not in text, drawing
        [*_, width, height] = re.search(r'viewBox="([^"]*)"', text)[1].split()
        assert re.search(rf'<rect [^>]*width="{width}" height="{height}"', text), drawing
