"""Every command, option, file, module and link that a page names exists."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest
from django.core.management import CommandError, get_commands, load_command_class

from django_tasks_retry import conf
from django_tasks_retry.cli.subcommand import subcommands
from tests.docs.pages import DOCS, README, ROOT, documented

TEXTS = {
    **{path.name: path.read_text(encoding="utf-8") for path in (README, ROOT / "CONTRIBUTING.md")},
    "example_project": (ROOT / "example_project" / "README.md").read_text(encoding="utf-8"),
    "CHANGELOG.md": (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"),
    "docs": documented(),
}
EVERYTHING = "\n".join(TEXTS.values())
PROSE = "\n".join(re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL) for text in TEXTS.values())
LITERALS = {
    " ".join(found.split()) for pair in re.findall(r"``([^`]+)``|(?<![`:])`([^`\n]+)`(?!`)", PROSE) for found in pair
}
OTHERS_COMMANDS = {"qcluster", "db_worker", "import_schedules"}
OTHERS_OPTIONS = {"--password", "--batch", "--deploy", "--from", "--apply"}  # of psql, other commands and Django
TOOLS = [
    *ROOT.glob("benchmarks/*.py"),
    *ROOT.glob("tests/*.py"),
    *(path for name in ("soak", "lab", "neighbours", "mutants") for path in ROOT.glob(f"tests/{name}/*.py")),
    ROOT / "django_tasks_retry" / "healthcheck.py",
    ROOT / "example_project" / "shop" / "management" / "commands" / "demo.py",
    ROOT / "tests" / "docs" / "prose.py",
]


def console_lines() -> list[str]:
    """Return the commands that pages show after a prompt, each up to its pipe or comment."""
    lines = re.findall(r"^\s*\$ (.+(?:\\\n.+)*)", EVERYTHING, re.MULTILINE)
    parts = [re.split(r"\s[|>]\s|\s#\s", line.replace("\\\n", " ")) for line in lines]
    return sorted({part.strip().removeprefix("xargs ") for each in parts for part in each})


def typed(prefix: str) -> list[str]:
    return [line.removeprefix(prefix) for line in console_lines() if line.startswith(prefix)]


@pytest.mark.parametrize("line", typed("python manage.py tasks "))
def test_commands_of_tasks_that_pages_show_are_accepted(line: str):
    load_command_class("django_tasks_retry", "tasks").create_parser("manage.py", "tasks").parse_args(shlex.split(line))


@pytest.mark.parametrize("line", typed("python manage.py runworker"))
def test_commands_of_workers_that_pages_show_are_accepted(line: str):
    parser = load_command_class("django_tasks_retry", "runworker").create_parser("manage.py", "runworker")
    parser.parse_args(shlex.split(line))


def test_a_command_with_an_option_that_does_not_exist_is_noticed():
    with pytest.raises(CommandError, match="--perhaps"):
        test_commands_of_tasks_that_pages_show_are_accepted("list --perhaps")


def test_every_management_command_that_is_named_exists():
    example = {path.stem for path in (ROOT / "example_project").glob("**/management/commands/*.py")}
    named = set(re.findall(r"manage\.py ([a-z_]+)", EVERYTHING))
    assert named - OTHERS_COMMANDS <= get_commands().keys() | example


def test_every_subcommand_that_is_named_exists():
    known = {name.split()[0] for name in subcommands()}
    named = {match[1] for text in LITERALS if (match := re.match(r"(?:manage\.py )?tasks ([a-z]+)", text))}
    assert named <= known


def options_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from options_of(inner)


def test_every_option_that_is_named_exists():
    commands = [load_command_class(app, name) for name, app in get_commands().items()]
    known = {option for each in commands for option in options_of(each.create_parser("manage.py", "x"))}
    known |= {name for path in TOOLS for name in re.findall(r"\"(--[a-z-]+)\"", path.read_text(encoding="utf-8"))}
    named = {option for text in LITERALS for option in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text)}
    shown = [line for line in console_lines() if re.match(r"python -m (tests|benchmarks|django_tasks_retry)", line)]
    named |= {option for line in shown for option in re.findall(r" (--[a-z][a-z-]+)", line)}
    assert named - OTHERS_OPTIONS <= known


def test_every_key_of_options_that_is_named_exists():
    assert set(re.findall(r"OPTIONS\[\"(\w+)\"\](?! = )", EVERYTHING)) - {"pool"} <= set(conf.KEYS)


def test_every_module_that_is_to_be_run_exists():
    for module in set(re.findall(r"python -m ((?:tests|benchmarks|django_tasks_retry)[\w.]*\w)", EVERYTHING)):
        place = ROOT / module.replace(".", "/")
        assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), module


def test_every_file_that_is_named_exists():
    roots = "docs|tests|example_project|benchmarks|django_tasks_retry"
    named = {text for text in LITERALS if re.fullmatch(rf"(?:{roots})/[\w/.-]+", text)}
    assert len(named) > 20
    assert not {name for name in named if not (ROOT / name).exists()}


def test_every_page_that_is_linked_within_a_clone_exists():
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "example_project/README.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert ((ROOT / name).parent / target).exists(), f"{name}: {target}"


def test_every_drawing_that_is_made_is_shown():
    made = {path.name.removesuffix("-light.svg") for path in (DOCS / "generated").glob("*-light.svg")}
    assert made == set(re.findall(r"^\.\. include:: /generated/(\w+)\.rst$", TEXTS["docs"], re.MULTILINE))
