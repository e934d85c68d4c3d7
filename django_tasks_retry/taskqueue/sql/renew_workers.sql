-- Renew workers: all that they hold, for their supervisor. One statement, and so one message: a supervisor that vanishes
-- in the middle of two would leave its tasks locked, and nobody could recover them until the server gives it up.
-- Locks in the order of ids, as all do that write about many tasks, and skips rows that others have locked: one row
-- that somebody forgot in an open transaction must not cost the worker all its leases.
-- If the whole table is locked, this waits even after the caller gave up, because the server does not check its socket.
-- The lease is judged by when the renewal was asked, and extended from when it was let in.
WITH leased AS MATERIALIZED (
    SELECT t.ctid AS place
    FROM ONLY django_tasks_retry_task AS t
    WHERE t.status = 'RUNNING'
        AND t.locked_by = ANY(%(workers)s::text[])
        AND t.lock_expires_at > django_tasks_retry_now()
        AND (%(known)s::uuid[] IS NULL OR t.id = ANY(%(known)s::uuid[]))
    ORDER BY t.id
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE ONLY django_tasks_retry_task AS t
SET lock_expires_at = GREATEST(t.lock_expires_at, django_tasks_retry_now() + (clock_timestamp() - statement_timestamp())
        + %(lease)s::float8 * interval '1 second'),
    moved_by = %(moved_by)s::text || CASE WHEN right(t.moved_by, 2) = '++' THEN '' ELSE '+' END
FROM leased
WHERE t.ctid = leased.place
RETURNING t.id
