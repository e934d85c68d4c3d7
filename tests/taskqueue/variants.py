"""Statements that differ from another in a few places: `python -m tests.taskqueue.variants` writes their files.

Each file under `taskqueue/sql/` is one whole statement. A change to one that has variants is made there once, and this
makes it in all of them; `test_variants.py` fails where a file is not what this writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "django_tasks_retry" / "taskqueue" / "sql"
NEWLINE = "\n"
NIL, LAST = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"


@dataclass(frozen=True)
class Variant:
    """The statement `of`, whose first comment line becomes `title`, and in which each text becomes another."""

    of: str
    title: str
    edits: tuple[tuple[str, str], ...]

    def text(self, folder: Path) -> str:
        text = text_of(self.of, folder)
        for old, new in self.edits:
            assert old in text, f"{old!r} does not stand in {self.of}.sql"
            text = text.replace(old, new)
        return f"-- {self.title}\n{text.partition(NEWLINE)[2]}"


def between(name: str, start: str, end: str) -> str:
    """The text of a statement from `start` to before `end`."""
    text = text_of(name, FOLDER)
    begin = text.index(start)
    return text[begin : text.index(end, begin)]


def text_of(name: str, folder: Path) -> str:
    return (folder / f"{name}.sql").read_text(encoding="utf-8")


KEYED = (
    (
        "%(floor_ids)s::uuid[]\n",
        "%(floor_ids)s::uuid[],\n        %(keys)s::text[], %(quotas)s::int[], %(singles)s::uuid[]\n",
    ),
    ("floor_id, n)", "floor_id, key, quota, single, n)"),
    (
        "        ) IS NULL\n    ORDER BY l.n\n",
        """\
        ) IS NULL
        AND (
            SELECT 1 FROM django_tasks_retry_lanestate AS s
            WHERE s.kind = 'lane' AND s.name = l.key AND 'lane:' || s.name <> ALL (%(held)s::text[])
        ) IS NULL
    ORDER BY l.n
""",
    ),
    (
        "            AND t.lane = ''\n",
        f"""\
            AND t.lane = lane.key
            AND (lane.single = '{NIL}' OR t.id = lane.single)
""",
    ),
    ("        LIMIT %(limit)s::int\n        FOR", "        LIMIT LEAST(lane.quota, %(limit)s::int)\n        FOR"),
)
ONE = (("AND (t.crashes IS NULL OR t.crashes < 2)", "AND t.id = %(only)s::uuid"),)
WAITING = (("FOR NO KEY UPDATE SKIP LOCKED", "FOR NO KEY UPDATE"), ("t.ctid", "t.id"))
IN_LANES = (
    (" AND t.lane = ''", ""),
    ("t.status = 'PENDING'", "t.status = 'PENDING' AND length(t.lane) > 0"),
    ("t.priority, t.lane, t.eta", "t.priority, t.eta"),
    ("WHERE head.lane = ''\n", ""),
)
DEPTHS_SQLITE = (("jsonb_agg", "json_group_array"), ("JOIN ONLY ", "JOIN "))
SHOWN_SQLITE = (
    ("SELECT key, value::uuid FROM jsonb_each_text(%(shown)s::jsonb)", "SELECT key, value FROM json_each(%(shown)s)"),
)
# SQLite knows the operator ->> from 3.38 on.
ERRORS_SQLITE = tuple(
    (f"task.last_error ->> '{name}'", f"json_extract(task.last_error, '$.{name}')")
    for name in ("exception", "code", "message")
)
IDS_SQLITE = (
    ("waits_for ~ '", "waits_for REGEXP '"),
    ("substr(w.waits_for, 7, 36)::uuid", "replace(substr(w.waits_for, 7, 36), '-', '')"),
    (NIL, NIL.replace("-", "")),
    (LAST, LAST.replace("-", "")),
)


def suspended_by(which: str) -> str:
    return f"""\
FROM (
    SELECT t.id, t.waits_for
    FROM django_tasks_retry_task AS t
    WHERE t.finished_at IS NULL AND t.locked_by IS NULL AND t.waits_for IS NOT NULL AND {which}
    ORDER BY t.waits_for, t.id
    LIMIT %(limit)s
"""


PAGE = between("suspended", "FROM (\n    WITH RECURSIVE", ") AS w")
PAGE_COMMENT = between("suspended", "-- One page, ", "-- A batch")
VARIANTS = {
    "claim_keyed": Variant(
        "claim", "Claim keyed: as claim.sql, from lanes that have keys, with a quota for each.", KEYED
    ),
    "claim_one": Variant("claim", "Claim one: as claim.sql, one task alone, whatever happened to it before.", ONE),
    "claim_keyed_one": Variant(
        "claim_keyed", "Claim keyed one: as claim_keyed.sql, one task alone, whatever happened to it before.", ONE
    ),
    "finish": Variant(
        "finish_repeating",
        "Finish: outcomes of many leases, written under their fences; the answer lists those that were accepted.",
        (
            (between("finish_repeating", "-- The clause `repeated`", "WITH report"), ""),
            (between("finish_repeating", "), repeated AS (", "\n)\nSELECT n"), ""),
            ("    ORDER BY e.n\n\n)", "    ORDER BY e.n\n)"),
        ),
    ),
    "finish_waiting": Variant(
        "finish_repeating",
        "Finish waiting: as finish_repeating.sql, but finds rows by id and waits for locked ones.",
        WAITING,
    ),
    "cancel_waiting": Variant(
        "cancel",
        "Cancel waiting: as cancel.sql, but waits for locked rows.",
        (("FOR NO KEY UPDATE OF t SKIP LOCKED", "FOR NO KEY UPDATE OF t"),),
    ),
    "expire": Variant(
        "cancel",
        "Expire: as cancel.sql, what expired before its first attempt began, by dtr_expiring and in its order.",
        (
            (
                "WHERE t.id = ANY (%(ids)s::uuid[])",
                """\
WHERE t.expires_at <= django_tasks_retry_now()
        AND t.finished_at IS NULL
        AND t.locked_by IS NULL
        AND t.attempts = t.refunds""",
            ),
            ("    ORDER BY t.id\n    FOR", "    ORDER BY t.expires_at\n    LIMIT %(limit)s::int\n    FOR"),
        ),
    ),
    "depths_keyed": Variant("depths", "Depths keyed: as depths.sql, of tasks that have a lane.", IN_LANES),
    "count_leases_sqlite": Variant(
        "count_leases",
        "Count leases: as count_leases.sql, for SQLite, which has one writer.",
        (
            (between("count_leases", "-- statement of its own", "SELECT asked.kind"), ""),
            ("FROM ONLY ", "FROM "),
            (
                "unnest(%(kinds)s::text[], %(names)s::text[]) AS asked (kind, name)",
                "(\n    SELECT json_extract(value, '$[0]') AS kind, json_extract(value, '$[1]') AS name "
                "FROM json_each(%(labels)s)\n) AS asked",
            ),
        ),
    ),
    "depths_sqlite": Variant("depths", "Depths: as depths.sql, for SQLite.", DEPTHS_SQLITE),
    "depths_keyed_sqlite": Variant("depths_sqlite", "Depths keyed: as depths_keyed.sql, for SQLite.", IN_LANES),
    "failures_sqlite": Variant("failures", "Failures: as failures.sql, for SQLite.", (*SHOWN_SQLITE, *ERRORS_SQLITE)),
    "failed_since_sqlite": Variant("failed_since", "Failed since: as failed_since.sql, for SQLite.", SHOWN_SQLITE),
    "awaiting": Variant(
        "suspended",
        "Awaiting: as suspended.sql, tasks that wait for one of these.",
        ((PAGE_COMMENT, ""), (PAGE, suspended_by("t.waits_for = ANY (%(keys)s::text[])"))),
    ),
    "suspended_sqlite": Variant(
        "suspended",
        "Suspended: as suspended.sql, for SQLite.",
        ((PAGE_COMMENT, ""), (PAGE, suspended_by("(t.waits_for, t.id) > (%(key)s, %(id)s)")), *IDS_SQLITE),
    ),
    "awaiting_sqlite": Variant(
        "suspended",
        "Awaiting: as awaiting.sql, for SQLite.",
        (
            (PAGE_COMMENT, ""),
            (PAGE, suspended_by("t.waits_for IN (SELECT value FROM json_each(%(keys)s))")),
            *IDS_SQLITE,
        ),
    ),
    "signal_sqlite": Variant("signal", "Signal: as signal.sql, for SQLite.", (("::jsonb", ""),)),
    "export_partition": Variant(
        "export",
        "Export partition: as export.sql, a page of the tasks in one archive.",
        (
            ("FROM django_tasks_retry_task AS t", "FROM {archive} AS t"),
            ("t.id = ANY (%(ids)s::uuid[])", "t.id > %(after)s"),
        ),
    ),
}


BESIDE = {"finish_repeating": ["complete"]}
"""Shorter, and so written by hand, but with the same fence."""


def family(name: str) -> list[str]:
    """The statement, all that are made from it, and what stands beside it."""
    variants = [other for other, variant in VARIANTS.items() if variant.of == name]
    return [name, *BESIDE.get(name, []), *(each for other in variants for each in family(other))]


def write(folder: Path = FOLDER) -> None:
    for name, variant in VARIANTS.items():
        (folder / f"{name}.sql").write_text(variant.text(folder), encoding="utf-8")


if __name__ == "__main__":
    write()
