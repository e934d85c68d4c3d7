from __future__ import annotations

import pytest
from django.db import connections

from tests import legs
from tests.settings import PLANNER


@pytest.mark.parametrize("in_ci", [False, True])
def test_an_absent_interpreter_is_told_in_one_line_and_fails_in_ci_only(capsys, monkeypatch, in_ci):
    monkeypatch.delenv("CI", raising=False)
    if in_ci:
        monkeypatch.setenv("CI", "true")
    outcome = legs.run(legs.Leg("the future", ("pytest",), legs.Pair("3.99", "6.1")))
    assert (outcome.word, outcome.is_failure) == ("skipped", in_ci)
    assert capsys.readouterr().out == "== the future: skipped, there is no Python 3.99 on this machine\n"


def interpreter(folder, name, says):
    folder.mkdir(parents=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    return program


def test_an_interpreter_is_found_where_pyenv_keeps_it(tmp_path, monkeypatch):
    found = interpreter(tmp_path / "pyenv/versions/3.98.1/bin", "python3.98", "echo 3.98")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert legs.find_interpreter("3.98") == found


def test_a_shim_that_does_not_run_is_passed_over(tmp_path, monkeypatch):
    interpreter(tmp_path / "shims", "python3.98", "exit 127")
    found = interpreter(tmp_path / "pyenv/versions/3.98.1/bin", "python3.98", "echo 3.98")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert legs.find_interpreter("3.98") == found


def test_the_closing_table_has_a_line_for_every_leg():
    first, second, third = (legs.Leg(pair.name, ("pytest",), pair) for pair in legs.PAIRS[:3])
    lines = legs.table(
        [
            legs.Outcome(first, "passed", "10 passed in 3.0s", 3),
            legs.Outcome(second, "failed", "1 failed in 4.0s", 4),
            legs.Outcome(third, "skipped", "no Python 3.13 here"),
        ]
    ).splitlines()
    assert lines == [
        "Python 3.11, Django 5.2 + backport  passed              3 s  10 passed in 3.0s",
        "Python 3.12, Django 6.0             failed              4 s  1 failed in 4.0s",
        "Python 3.13, Django 6.1             skipped             0 s  no Python 3.13 here",
    ]


def test_what_cannot_be_installed_or_does_not_pass_is_a_failure():
    words = {word: legs.Outcome(legs.LONG, word).is_failure for word in ("passed", "failed", "not installed")}
    assert words == {"passed": False, "failed": True, "not installed": True}


def test_the_legs_of_a_merge_and_of_a_release_have_names_of_their_own():
    for chosen in (legs.CI, legs.FULL):
        assert len({leg.name for leg in chosen}) == len(chosen)


def test_a_name_that_no_leg_has_is_answered_with_all_names(capsys):
    assert legs.main(["nightly"]) == 2
    assert "partitions" in capsys.readouterr().out


@pytest.mark.django_db(databases=["postgresql"])
@pytest.mark.parametrize("leg", legs.OTHER_PLANS, ids=lambda leg: leg.variables["PLANNER"])
def test_a_way_of_planning_that_a_leg_leaves_out_is_one_that_postgresql_knows(leg):
    way = leg.variables["PLANNER"]
    with connections["postgresql"].cursor() as cursor:
        cursor.execute("SHOW enable_" + way)
        assert cursor.fetchone() == ("off" if way == PLANNER else "on",)
