"""`python -m tests.mutants [part of a name …]`: plant every bug, and show which test caught it.

`--sample N` plants N of them, chosen by the commit, so that every commit tries others and a failure can be repeated.
"""

from __future__ import annotations

import subprocess
import sys
import time
from random import Random

from tests.mutants.catalogue import MUTANTS
from tests.mutants.harness import ROOT, Verdict, copy_of_the_package, judge, run_tests
from tests.mutants.mutant import UNNAMED, Mutant


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--sample"]:
        mutants = sample(int(arguments[1]))
    else:
        mutants = [mutant for mutant in MUTANTS if not arguments or any(part in mutant.name for part in arguments)]
        check_that_all_is_green(mutants)
    say("| mutant | planted in | caught by | guard refuses it | result |\n|---|---|---|---|---|")
    began, verdicts = time.monotonic(), []
    for mutant in mutants:
        verdicts.append(judge(mutant))
        say(row(verdicts[-1]))
    survivors = [verdict for verdict in verdicts if not verdict.caught]
    say(f"\n{len(verdicts) - len(survivors)} of {len(verdicts)} caught in {time.monotonic() - began:.0f} s")
    for verdict in survivors:
        say(f"\n{verdict.mutant.name}:\n" + "\n".join(run.tail for run in verdict.runs))
    return 1 if survivors else 0


def sample(size: int) -> list[Mutant]:
    """Choose by the commit. All tests are green before, by the tiers of the same run."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    return Random(head.stdout.strip()).sample(MUTANTS, size)


def check_that_all_is_green(mutants: list[Mutant]) -> None:
    """A test that is red without any bug catches nothing."""
    with copy_of_the_package() as root:
        for guard in (True, False):
            tests = sorted({test for mutant in mutants if guard or mutant.guarded for test in mutant.caught_by})
            if tests and (run := run_tests(root, tests, guard=guard, on=UNNAMED)).red:
                sys.exit(f"red without a planted bug ({'with' if guard else 'without'} the guard):\n{run.tail}")


def row(verdict: Verdict) -> str:
    mutant = verdict.mutant
    tests = ", ".join(test.partition("::")[2] for test in mutant.caught_by)
    refused = "yes" if verdict.refused else "—"
    return f"| {mutant.name} | {mutant.files} | {tests} | {refused} | {'caught' if verdict.caught else 'SURVIVED'} |"


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
