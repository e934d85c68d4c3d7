"""The drawings of the documentation as SVG, each in a light and a dark copy: `drawings()` returns them by file name.

The life of a task is drawn from the table of legal moves; the other scenes are lists of parts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any, NamedTuple
from xml.sax.saxutils import escape

LIGHT = {
    "paper": "#ffffff", "ink": "#1f2430", "line": "#4a5162", "soft": "#39404f", "frame": "#f6f7f9", "rim": "#9aa1b1",
    "PENDING": "#fff3cd", "RUNNING": "#cfe8ff", "SUCCESS": "#d3f2d8", "FAILED": "#fbd5d5", "CANCELLED": "#e6e0ee",
}  # fmt: skip
DARK = {
    "paper": "#1a1c1e", "ink": "#e7eaf0", "line": "#a5adbd", "soft": "#c3c9d5", "frame": "#24272b", "rim": "#6b7384",
    "PENDING": "#5c4a12", "RUNNING": "#1d4468", "SUCCESS": "#1f4d2b", "FAILED": "#662a2a", "CANCELLED": "#433a52",
}  # fmt: skip
STYLE = """\
text {{ font: 13px system-ui, sans-serif; fill: {ink}; text-anchor: middle }}
.name {{ font-weight: 600 }}
.box {{ stroke: {line}; stroke-width: 1.3 }}
.frame {{ fill: {frame}; stroke: {rim}; stroke-dasharray: 5 4 }}
.move {{ fill: none; stroke: {line}; stroke-width: 1.4; marker-end: url(#arrow) }}
.label {{ font-size: 11.5px; fill: {soft}; paint-order: stroke; stroke: {paper}; stroke-width: 5px }}
.note {{ font-size: 11.5px; fill: {soft} }}
.left {{ text-anchor: start }}
.free {{ fill: none; stroke-dasharray: 3 3 }}
"""
STATUSES = ("PENDING", "RUNNING", "SUCCESS", "FAILED", "CANCELLED")


class Scene(NamedTuple):
    title: str
    words: str
    width: int
    height: int
    parts: list[str]


def svg(scene: Scene, colours: dict[str, str]) -> str:
    style = STYLE.format(**colours) + "\n".join(f".{name} {{ fill: {colours[name]} }}" for name in STATUSES)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {scene.width} {scene.height}" role="img">',
            f"<title>{escape(scene.title)}</title>\n<desc>{escape(scene.words)}</desc>\n<style>\n{style}\n</style>",
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="{colours["line"]}"/></marker></defs>',
            f'<rect width="{scene.width}" height="{scene.height}" rx="8" fill="{colours["paper"]}"/>',
            *scene.parts,
            "</svg>",
            "",
        ]
    )


def include(name: str, scene: Scene) -> str:
    """Return the directives that show the copy that fits the page."""
    return "\n".join(
        f".. image:: /generated/{name}-{tone}.svg\n   :class: only-{tone}\n   :alt: {scene.words}\n"
        for tone in ("light", "dark")
    )


def drawings(moves: Iterable[Any]) -> dict[str, str]:
    scenes = {"states": states(moves), **SCENES}
    made = {f"{name}.rst": include(name, scene) for name, scene in scenes.items()}
    for name, scene in scenes.items():
        made |= {f"{name}-light.svg": svg(scene, LIGHT), f"{name}-dark.svg": svg(scene, DARK)}
    return made


# Parts


def box(x: int, y: int, text: str, kind: str, width: int = 116, height: int = 40) -> str:
    """Draw a box around its centre, the first line of its text in bold."""
    first, *rest = text.split("\n")
    top = y + 4 - 8 * len(rest)
    lines = [f'<text class="name" x="{x}" y="{top}">{escape(first)}</text>']
    lines += [f'<text class="note" x="{x}" y="{top + 16 * n}">{escape(line)}</text>' for n, line in enumerate(rest, 1)]
    corner = f'x="{x - width // 2}" y="{y - height // 2}" width="{width}" height="{height}"'
    return f'<rect class="box {kind}" {corner} rx="8"/>' + "".join(lines)


def frame(x: int, y: int, width: int, height: int, text: str) -> str:
    """Draw a dashed frame from its upper left corner, with a title."""
    return (
        f'<rect class="frame" x="{x}" y="{y}" width="{width}" height="{height}" rx="10"/>'
        f'<text class="name left" x="{x + 14}" y="{y + 24}">{escape(text)}</text>'
    )


def line(path: str, text: str = "", x: float = 0, y: float = 0, *, both: bool = False) -> str:
    start = ' marker-start="url(#arrow)"' if both else ""
    return f'<path class="move"{start} d="{path}"/>' + (label(x, y, text.split("\n")) if text else "")


def note(x: int, y: int, text: str) -> str:
    return f'<text class="note left" x="{x}" y="{y}">{escape(text)}</text>'


def label(x: float, y: float, lines: list[str]) -> str:
    """Draw text on an arrow; the rim of its letters hides the line below."""
    top = y + 4 - 6.5 * (len(lines) - 1)
    return "".join(
        f'<text class="label" x="{x:g}" y="{top + 13 * n:g}">{escape(each)}</text>' for n, each in enumerate(lines)
    )


def wrapped(text: str, width: int = 24) -> list[str]:
    lines, each = [], ""
    for word in text.split():
        if each and len(each) + len(word) >= width:
            lines.append(each)
            each = ""
        each = f"{each} {word}".strip()
    return [*lines, each]


# The life of a task

PLACES = {
    None: (30, 200),
    "PENDING": (170, 200),
    "RUNNING": (490, 200),
    "SUCCESS": (780, 100),
    "FAILED": (780, 300),
    "CANCELLED": (330, 350),
}
BENDS = {("RUNNING", "PENDING"): -95}
"""How far an arrow bends away from its straight line; arrows that are not listed run straight."""


def states(moves: Iterable[Any]) -> Scene:
    names: dict[tuple[Any, str], list[str]] = defaultdict(list)
    for move in moves:
        names[move.source and str(move.source), str(move.target)].append(move.name)
    words = "; ".join(
        f"{source or 'new'} to {target}: {', '.join(labels)}" for (source, target), labels in names.items()
    )
    arrows = [arrow(source, target, labels) for (source, target), labels in names.items()]
    boxes = [box(*place, name, name) for name, place in PLACES.items() if name]
    x, y = PLACES[None]
    return Scene(
        "The life of a task", words, 860, 400, [*arrows, *boxes, f'<circle class="box" cx="{x}" cy="{y}" r="6"/>']
    )


def arrow(source: str | None, target: str, labels: list[str]) -> str:
    if source == target:
        return loop(target, labels)
    (x1, y1), (x2, y2) = PLACES[source], PLACES[target]
    bend = BENDS.get((str(source), target), 0)
    x1, y1 = edge(x1, y1, x2, y2, bend) if source else (x1 + 6, y1)
    x2, y2 = edge(x2, y2, x1, y1, bend)
    x, y = (x1 + x2) / 2, (y1 + y2) / 2
    return line(f"M{x1:g} {y1:g} Q{x:g} {y + 2 * bend:g} {x2:g} {y2:g}") + label(x, y + bend, all_wrapped(labels))


def edge(x: int, y: int, to_x: int, to_y: int, bend: int) -> tuple[int, int]:
    """Return the point where an arrow meets a box: on the side that faces the other, or on top if it bends up."""
    if bend:
        return x, y - 20
    if y == to_y or abs(to_x - x) > 200:
        return x + (58 if to_x > x else -58), y
    return x + (20 if to_x > x else -20), y + (20 if to_y > y else -20)


def loop(name: str, labels: list[str]) -> str:
    away = 30 if PLACES[name][0] > PLACES["CANCELLED"][0] else -30
    x, y = PLACES[name][0] + away, PLACES[name][1] + 20
    return line(f"M{x + 10} {y} C{x + 30} {y + 50} {x - 30} {y + 50} {x - 10} {y}") + label(
        x, y + 52, all_wrapped(labels)
    )


def all_wrapped(labels: list[str]) -> list[str]:
    return [part for text in labels for part in wrapped(text)]


# The other scenes

LANE = Scene(
    "A lane",
    "A lane with concurrency 2: two tasks of tenant 7 run and the third waits, although a slot is free. "
    "The task of tenant 8 runs.",
    860,
    290,
    [
        frame(20, 20, 250, 250, "queue"),
        box(145, 76, "#103 · tenant-7", "PENDING", 200, 34),
        note(60, 116, "PENDING: its lane is full"),
        note(60, 150, "Claims pass over it and continue"),
        note(60, 168, "with the tasks behind it."),
        note(60, 202, "It runs when #101 or #102 ends,"),
        note(60, 220, "fails, or loses its lease."),
        frame(310, 20, 240, 140, "lane tenant-7 · concurrency 2"),
        box(430, 76, "#101", "RUNNING", 180, 34),
        box(430, 124, "#102", "RUNNING", 180, 34),
        frame(310, 180, 240, 90, "lane tenant-8 · concurrency 2"),
        box(430, 236, "#104", "RUNNING", 180, 34),
        frame(590, 20, 250, 250, "slots of the workers"),
        box(715, 76, "slot 1 · #101", "RUNNING", 190, 34),
        box(715, 124, "slot 2 · #102", "RUNNING", 190, 34),
        box(715, 172, "slot 3 · #104", "RUNNING", 190, 34),
        box(715, 220, "slot 4 · free", "free", 190, 34),
        line("M246 76H306", "waits", 276, 62),
        line("M522 76H616"),
        line("M522 124H616"),
        line("M522 236C570 236 570 172 616 172"),
    ],
)

WORKFLOW = Scene(
    "A workflow that waits",
    "A workflow runs a step, gathers three members and is PENDING while they run; when the last has ended it is "
    "called again from the beginning, skips the step and reads their results.",
    860,
    320,
    [
        box(130, 70, "RUNNING · attempt 1\nstep “charge” runs\ngather(…) enqueues", "RUNNING", 190, 76),
        box(430, 70, "PENDING\nwaits without a worker\nattempt refunded", "PENDING", 200, 76),
        box(730, 70, "RUNNING · attempt 2\nfrom the beginning\nstep “charge” is skipped", "RUNNING", 200, 76),
        line("M225 70H328", "release", 276, 58),
        line("M530 70H628", "wake", 579, 58),
        frame(230, 160, 400, 140, "members of the batch"),
        box(320, 224, "member 1\nSUCCESS", "SUCCESS", 110, 56),
        box(440, 224, "member 2\nFAILED", "FAILED", 110, 56),
        box(560, 224, "member 3\nSUCCESS", "SUCCESS", 110, 56),
        note(272, 284, "any workers, in any order, each with its own retries"),
        line("M130 108C130 224 180 224 258 224", "enqueue", 150, 200),
        line("M618 224C700 224 700 170 700 112", "the last one has ended", 716, 200),
    ],
)

PROCESSES = Scene(
    "Supervisor and children",
    "A worker is a supervisor and its children: the supervisor renews leases, listens, polls, enqueues schedules "
    "and prunes; children claim, run and report. Both talk to one database.",
    860,
    340,
    [
        frame(20, 16, 820, 220, "one worker: manage.py runworker --processes 3"),
        box(
            150,
            134,
            "supervisor\nruns no task\nrenews leases\nlistens and polls\nwatches timeouts\nschedules, prunes",
            "PENDING",
            200,
            150,
        ),
        box(420, 134, "child 1\nclaims\nruns in threads\nand event loop\nreports", "RUNNING", 130, 130),
        box(580, 134, "child 2\nclaims\nruns in threads\nand event loop\nreports", "RUNNING", 130, 130),
        box(740, 134, "child 3\nkilled by its task:\nreplaced at once", "FAILED", 130, 130),
        line("M252 134H353", "socket pair\nshared table", 303, 112, both=True),
        box(430, 300, "PostgreSQL or SQLite: tasks, leases, events, results", "SUCCESS", 780, 44),
        line("M150 210V276", both=True),
        line("M420 200V276", both=True),
        line("M580 200V276", both=True),
        label(500, 256, ["each with its own connections"]),
    ],
)

FAILOVER = Scene(
    "Failover",
    "The primary is lost while a task runs: the worker keeps the outcome, reconnects to the new primary and records "
    "the outcome under its fence; if the lease was lost meanwhile, the outcome is rejected and the task runs again.",
    860,
    350,
    [
        note(20, 64, "primary A"),
        box(190, 60, "accepts writes", "SUCCESS", 180, 34),
        box(370, 60, "lost", "FAILED", 150, 34),
        note(20, 124, "primary B"),
        box(280, 120, "standby", "PENDING", 360, 34),
        box(650, 120, "promoted, accepts writes", "SUCCESS", 360, 34),
        note(20, 194, "worker"),
        box(190, 190, "claims, renews", "RUNNING", 180, 34),
        box(370, 190, "reconnects", "PENDING", 150, 34),
        box(555, 190, "keeps the outcome", "RUNNING", 170, 34),
        box(745, 190, "reports", "RUNNING", 150, 34),
        note(20, 254, "task"),
        box(350, 250, "runs on", "RUNNING", 500, 34),
        line("M370 78V172"),
        line("M745 172V140"),
        line("M820 207C846 250 846 280 800 300"),
        note(100, 306, "lease still valid: the outcome is recorded, under its fence"),
        note(100, 328, "lease lost meanwhile: the report is rejected and the task runs again"),
        label(760, 314, ["decided by the fence"]),
    ],
)

SCENES = {"lane": LANE, "workflow": WORKFLOW, "processes": PROCESSES, "failover": FAILOVER}
