from __future__ import annotations

from tests import matrix


def test_an_absent_interpreter_is_told_in_one_line_and_is_no_failure(capsys):
    outcome = matrix.run(matrix.Leg("3.99", "6.1"), [])
    assert (outcome.word, outcome.is_failure) == ("skipped", False)
    assert capsys.readouterr().out == ("== Python 3.99, Django 6.1: skipped, there is no Python 3.99 on this machine\n")


def interpreter(folder, name, says):
    folder.mkdir(parents=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{says}\n")
    program.chmod(0o755)
    return program


def test_an_interpreter_is_found_where_pyenv_keeps_it(tmp_path, monkeypatch):
    found = interpreter(tmp_path / "pyenv/versions/3.98.1/bin", "python3.98", "echo 3.98")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert matrix.find_interpreter("3.98") == found


def test_a_shim_that_does_not_run_is_passed_over(tmp_path, monkeypatch):
    interpreter(tmp_path / "shims", "python3.98", "exit 127")
    found = interpreter(tmp_path / "pyenv/versions/3.98.1/bin", "python3.98", "echo 3.98")
    monkeypatch.setenv("PATH", str(tmp_path / "shims"), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert matrix.find_interpreter("3.98") == found


def test_the_closing_table_has_a_line_for_every_leg():
    first, second, third, *_ = matrix.LEGS
    lines = matrix.table(
        [
            matrix.Outcome(first, "passed", "10 passed in 3.0s", 3),
            matrix.Outcome(second, "failed", "1 failed in 4.0s", 4),
            matrix.Outcome(third, "skipped", "no Python 3.13 here"),
        ]
    ).splitlines()
    assert lines == [
        "Python 3.11, Django 5.2 + backport  passed              3 s  10 passed in 3.0s",
        "Python 3.12, Django 6.0             failed              4 s  1 failed in 4.0s",
        "Python 3.13, Django 6.1             skipped             0 s  no Python 3.13 here",
    ]


def test_what_cannot_be_installed_or_does_not_pass_is_a_failure():
    words = {word: matrix.Outcome(matrix.LEGS[0], word).is_failure for word in ("passed", "failed", "not installed")}
    assert words == {"passed": False, "failed": True, "not installed": True}
