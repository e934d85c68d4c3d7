"""python -m benchmarks [measure ...]"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

from . import __doc__ as about
from .contenders import BROKERS, OURS, PEERS, Contender
from .measures import MEASURES as OF_QUEUES
from .measures import NOISY, Bench, Figure
from .meter import Noise
from .pictures import chart, curves
from .real import ORDINARY
from .report import read, table, verdicts, write
from .server import DURABLE, VERSION, Server

MEASURES = OF_QUEUES | ORDINARY
TRIES = 3


def arguments() -> argparse.Namespace:
    measures = "\n".join(f"  {name:10} {measure.__doc__}" for name, measure in MEASURES.items())
    parser = argparse.ArgumentParser(
        "python -m benchmarks",
        description=about,
        epilog=f"measures:\n{measures}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("measures", nargs="*", metavar="measure", help="some of those below (default: all)")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything: seconds, and rough")
    parser.add_argument("--repeat", type=int, default=1, help="rounds of all measures; medians count")
    names = ",".join(peer.name for peer in [*PEERS, *BROKERS])
    parser.add_argument(
        "--peers",
        nargs="?",
        const=names,
        default="",
        help=f"measure neighbours too, each in an environment of its own ({names})",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="a folder for figures.json, table.md and pictures; what is not measured now stays there",
    )
    parser.add_argument("--redraw", action="store_true", help="only make table.md and pictures from figures.json again")
    given = parser.parse_args()
    unknown = set(given.measures) - set(MEASURES)
    if unknown:
        parser.error(f"unknown measure {', '.join(sorted(unknown))}; there are {', '.join(MEASURES)}")
    return given


def peers_of(given: argparse.Namespace) -> list[Contender]:
    return [peer for peer in [*PEERS, *BROKERS] if peer.name in given.peers.split(",")]


def measure(given: argparse.Namespace) -> list[Figure]:
    figures: list[Figure] = []
    peers = peers_of(given)
    for peer in peers:
        peer.python()
    with Server() as server:
        bench = Bench(server, peers, given.quick)
        for _ in range(given.repeat):
            for name in given.measures or MEASURES:
                figures += in_quiet(MEASURES[name], bench)
    return figures


def in_quiet(measure: Callable[[Bench], Iterator[Figure]], bench: Bench) -> list[Figure]:
    """Run a measure; again if others used the machine meanwhile. The last noisy run keeps its mark."""
    for tries_left in reversed(range(TRIES)):
        noise, figures = Noise(), []
        for figure in measure(bench):
            print(f"{figure.measure:45} {figure.who:20} {figure.value:12,.3f} {figure.unit}", flush=True)
            figures.append(figure)
        share = round(noise.share, 3)
        marked = [replace(figure, foreign=share, date=today()) for figure in figures]
        if share < NOISY or not tries_left:
            break
        print(f"Others used {share:.0%} of the machine: measured again.", flush=True)
    return marked


def today() -> str:
    return f"{date.today():%-d %B %Y}"


def about_run(peers: list[Contender]) -> dict[str, str]:
    """Return the machine, the settings and the versions of everything."""
    versions = dict(each for who in [OURS, *peers] for each in who.versions().items())
    return {
        "date": today(),
        "machine": f"one machine with {os.cpu_count()} cores, which also ran PostgreSQL {VERSION}",
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]).partition(" --out")[0],
        "settings": ", ".join(f"{name} = {value}" for name, value in DURABLE.items()),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }


def beside(figures: list[Figure], folder: Path) -> list[Figure]:
    """Return earlier figures that are not among these."""
    now = {figure.measure for figure in figures}
    earlier = read(folder) if (folder / "figures.json").exists() else []
    return [figure for figure in earlier if figure.measure not in now]


def main() -> None:
    given = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that servers and workers end with us
    figures = read(given.out) if given.redraw else measure(given)
    print("", table(figures), "", *verdicts(figures), sep="\n")
    if given.out:
        figures = beside(figures, given.out) + figures
        write(given.out, figures)
        if not given.redraw:
            (given.out / "run.json").write_text(json.dumps(about_run(peers_of(given)), indent=1) + "\n")
        (given.out / "chart.svg").write_text(chart(figures))
        (given.out / "curves.svg").write_text(curves(figures))


if __name__ == "__main__":
    main()
