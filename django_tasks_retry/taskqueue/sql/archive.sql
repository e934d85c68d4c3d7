-- Archive: copy tasks that succeeded in time for their partition into its archive; locked ones are skipped.
-- The guard compares each row with the one in the table of tasks, so delete_archived runs after this.
INSERT INTO {archive} (
    id, run_id, retry_of_id, parent_id, schedule_id, batch, func_path, args, kwargs, unique_key, metadata, lane,
    backend, max_attempts, backoff, timeout, interval, slot, created_at, expires_at, unique_until, deadline_at,
    follows_id, on_failure, queue, priority, eta, refunds, status, attempts, started_at, last_attempt_at, locked_by,
    lock_expires_at, moved_by, updated_at, finished_at, last_error, fingerprint, progress, waits_for, crashes
)
SELECT
    id, run_id, retry_of_id, parent_id, schedule_id, batch, func_path, args, kwargs, unique_key, metadata, lane,
    backend, max_attempts, backoff, timeout, interval, slot, created_at, expires_at, unique_until, deadline_at,
    follows_id, on_failure, queue, priority, eta, refunds, status, attempts, started_at, last_attempt_at, locked_by,
    lock_expires_at, moved_by, updated_at, finished_at, last_error, fingerprint, progress, waits_for, crashes
FROM ONLY django_tasks_retry_task
WHERE id >= %(first)s
    AND id > %(after)s
    AND id <= %(until)s
    AND status = 'SUCCESS'
    AND finished_at < LEAST(%(late)s, django_tasks_retry_now() - %(settled)s * interval '1 second')
    AND schedule_id IS NULL
    AND backend = ANY (%(backends)s)
ORDER BY id
FOR UPDATE SKIP LOCKED
