"""Check the heartbeat file of a worker: `python -m django_tasks_retry.healthcheck FILE --max-age 30`.

Exit code 0 if the worker is alive. Needs no database.
"""

import sys
import time
from pathlib import Path


def main(arguments: list[str]) -> int:
    try:
        file, max_age = arguments[0], 30.0
        if len(arguments) == 3 and arguments[1] == "--max-age":
            max_age = float(arguments[2])
        elif len(arguments) != 1:
            raise ValueError
    except (IndexError, ValueError):
        sys.stderr.write("usage: python -m django_tasks_retry.healthcheck FILE [--max-age SECONDS]\n")
        return 2
    try:
        age = time.time() - Path(file).stat().st_mtime
    except OSError as error:
        sys.stderr.write(f"no heartbeat: {error}. Is runworker started with --heartbeat-file {file}?\n")
        return 1
    if abs(age) > max_age:
        # A worker that lives writes a new one within a second of the clock being set back.
        when = f"is {age:.0f} s old" if age > 0 else f"lies {-age:.0f} s in the future"
        sys.stderr.write(f"the last heartbeat {when}, more than {max_age:g} s: the worker hangs or is gone\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
