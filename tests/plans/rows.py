"""Tasks by the hundred thousand, as SQL."""

from __future__ import annotations

# Ids rise with time, and all are older than those that the tests enqueue.
LOAD = """
INSERT INTO django_tasks_retry_task (
    id, run_id, func_path, args, kwargs, queue, priority, backend, status, eta, attempts, max_attempts, refunds,
    timeout, interval, locked_by, lock_expires_at, unique_key, metadata, created_at, updated_at, finished_at
)
SELECT id, id, '{path}', '[]', '{{}}', 'default', {priority}, 'default', '{status}',
    now() + interval '{eta}' + n * interval '1 ms', {attempts}, 5, 0,
    3600, 0, {locked_by}, {lock_expires_at}, 'crowd-' || n, '{{}}', now(), now(), {finished_at}
FROM generate_series({first}, {first} + {count} - 1) AS n
CROSS JOIN LATERAL (SELECT ('01900000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid AS id) AS made
"""
RESULTS = """
INSERT INTO django_tasks_retry_taskresult (task_id, status, attempts, finished_at)
SELECT id, status, attempts, finished_at FROM django_tasks_retry_task WHERE status = 'SUCCESS'
"""
IN_STATUS = {
    "PENDING": {"attempts": "0", "locked_by": "NULL", "lock_expires_at": "NULL", "finished_at": "NULL"},
    "RUNNING": {
        "attempts": "1", "locked_by": "'crowd/1'", "lock_expires_at": "now() + interval '1 h'", "finished_at": "NULL",
    },
    "SUCCESS": {
        "attempts": "1", "locked_by": "NULL", "lock_expires_at": "NULL", "finished_at": "now() - interval '1 year'",
    },
}  # fmt: skip
