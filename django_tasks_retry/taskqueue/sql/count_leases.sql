-- Count leases: the permits that are out, expired or not, until they are taken back. Run after lock_limits.sql, as a
-- statement of its own: one snapshot for both would be older than the locks.
-- Lane by lane, in the index of their leases. Asked for all at once, a planner without statistics took the one of all
-- leases, by bitmap: that reads every dead entry again, and leaves it there for the next one to read.
SELECT asked.kind, asked.name, CASE asked.kind
    WHEN 'lane' THEN (
        SELECT count(*) FROM ONLY django_tasks_retry_task AS t
        WHERE t.lane > '' AND t.attempts > 0 AND t.finished_at IS NULL AND t.lane = asked.name AND t.status = 'RUNNING'
    )
    WHEN 'queue' THEN (
        SELECT count(*) FROM ONLY django_tasks_retry_task AS t WHERE t.status = 'RUNNING' AND t.queue = asked.name
    )
    ELSE (SELECT count(*) FROM ONLY django_tasks_retry_task AS t WHERE t.status = 'RUNNING' AND t.func_path = asked.name)
END
FROM unnest(%(kinds)s::text[], %(names)s::text[]) AS asked (kind, name)
