"""No queue: call the body of a real task in as many threads of as many processes, for ever."""

from __future__ import annotations

import os
import threading
from itertools import count

import django
import verbs

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchmarks.settings")


def work(processes: int, threads: int) -> None:
    for _ in range(processes - 1):
        if not os.fork():
            break
    numbers = count(os.getpid())
    for _ in range(threads):
        threading.Thread(target=run_all, args=(numbers,)).start()


def run_all(numbers: count[int]) -> None:
    import real_body

    for number in numbers:
        real_body.run(number)


def real(count: int) -> None:
    import real_body

    real_body.create()


if __name__ == "__main__":
    django.setup()
    verbs.main({"setup": lambda: None, "real": real, "work": work})
