"""python -m benchmarks [measure ...]"""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path

from . import __doc__ as about
from .contenders import BROKERS, PEERS
from .measures import MEASURES as OF_QUEUES
from .measures import Bench, Figure
from .pictures import chart, curves
from .real import ORDINARY
from .report import read, table, verdicts, write
from .server import Server

MEASURES = OF_QUEUES | ORDINARY


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
    parser.add_argument("--repeat", type=int, default=1, help="runs of each measure; the median counts")
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


def measure(given: argparse.Namespace) -> list[Figure]:
    figures: list[Figure] = []
    peers = [peer for peer in [*PEERS, *BROKERS] if peer.name in given.peers.split(",")]
    for peer in peers:
        peer.python()
    with Server() as server:
        bench = Bench(server, peers, given.quick)
        for name in given.measures or MEASURES:
            for _ in range(given.repeat):
                for figure in MEASURES[name](bench):
                    print(f"{figure.measure:45} {figure.who:20} {figure.value:12,.3f} {figure.unit}", flush=True)
                    figures.append(figure)
    return figures


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
        (given.out / "chart.svg").write_text(chart(figures))
        (given.out / "curves.svg").write_text(curves(figures))


if __name__ == "__main__":
    main()
