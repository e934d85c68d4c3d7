"""The ceiling: a loop written by hand in psycopg that does the same row work, without a framework or a guard.

For each task: the claim (status, attempt, lease) with its event, and the completion with its event and its result.
"""

from __future__ import annotations

import os
import time
from typing import Any

import psycopg
import verbs

BATCH = 100

SCHEMA = """
CREATE TABLE task (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, func text NOT NULL, args jsonb NOT NULL, queue text NOT NULL,
    priority smallint NOT NULL, status text NOT NULL, eta timestamptz NOT NULL, attempts int NOT NULL,
    locked_by text, lock_expires_at timestamptz, finished_at timestamptz
);
CREATE INDEX ON task (queue, priority, eta, id) WHERE status = 'PENDING';
CREATE INDEX ON task (lock_expires_at) WHERE status = 'RUNNING';
CREATE TABLE event (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, task_id bigint NOT NULL, kind text NOT NULL,
    ts timestamptz NOT NULL, attempt int NOT NULL, actor text NOT NULL, data jsonb NOT NULL
);
CREATE INDEX ON event (task_id);
CREATE TABLE result (task_id bigint PRIMARY KEY, status text NOT NULL, result jsonb, finished_at timestamptz NOT NULL);
"""

ENQUEUE = """
INSERT INTO task (func, args, queue, priority, status, eta, attempts)
SELECT 'noop', '[]', 'default', 0, 'PENDING', now(), 0 FROM generate_series(1, %s)
"""

CLAIM = """
WITH due AS MATERIALIZED (
    SELECT id FROM task WHERE status = 'PENDING' AND queue = 'default' AND priority = 0 AND eta <= now()
    ORDER BY eta, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE task SET status = 'RUNNING', attempts = attempts + 1, locked_by = %(worker)s,
        lock_expires_at = now() + interval '1 minute'
    FROM due WHERE task.id = due.id RETURNING task.id, task.func, task.args, task.attempts
), told AS (
    INSERT INTO event (task_id, kind, ts, attempt, actor, data)
    SELECT id, 'task.running', now(), attempts, %(worker)s, '{}' FROM claimed
)
SELECT id, func, args, attempts FROM claimed
"""

COMPLETE = """
WITH moved AS (
    UPDATE task SET status = 'SUCCESS', finished_at = now(), locked_by = NULL, lock_expires_at = NULL
    FROM unnest(%(ids)s::bigint[]) AS r (id)
    WHERE task.id = r.id AND locked_by = %(worker)s AND lock_expires_at > now() RETURNING task.id, attempts
), results AS (
    INSERT INTO result SELECT id, 'SUCCESS', 'null', now() FROM moved
), told AS (
    INSERT INTO event (task_id, kind, ts, attempt, actor, data)
    SELECT id, 'task.completed', now(), attempts, %(worker)s, '{}' FROM moved
)
SELECT count(*) FROM moved
"""


def connect() -> psycopg.Connection[Any]:
    return psycopg.connect(verbs.URL, autocommit=True, prepare_threshold=None)


def enqueue(times: int, count: int) -> None:
    with connect() as connection:
        verbs.timed(lambda: connection.execute(ENQUEUE, [count]), times)


def loop() -> None:
    worker = f"worker-{os.getpid()}"
    with connect() as connection:
        while True:
            claimed = connection.execute(CLAIM, {"limit": BATCH, "worker": worker}).fetchall()
            if not claimed:
                time.sleep(0.05)
                continue
            ids = [run(*row) for row in claimed]
            connection.execute(COMPLETE, {"ids": ids, "worker": worker})


def run(task_id: int, func: str, args: list[Any], attempt: int) -> int:
    """Stand in for the call of the function."""
    return task_id


def setup() -> None:
    with connect() as connection:
        connection.execute(SCHEMA)


def work(processes: int) -> None:
    verbs.crew(processes, __file__, "loop")


if __name__ == "__main__":
    verbs.main(
        {
            "setup": setup,
            "one": lambda count: enqueue(count, 1),
            "bulk": lambda count: enqueue(count // 1000 or 1, min(count, 1000)),
            "loop": loop,
            "work": work,
        }
    )
