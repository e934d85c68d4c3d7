-- Prune: finished tasks with all that tells of them, in one statement; those of a batch are left, for it may be needed.
-- Skips locked rows. Also deletes leftovers of deleted tasks.
WITH asked AS (
    SELECT unnest(%(ids)s::uuid[]) AS id
), locked AS MATERIALIZED (
    SELECT t.id
    FROM django_tasks_retry_task AS t
    WHERE t.id = ANY (%(ids)s::uuid[])
        AND t.backend = %(backend)s
        AND t.batch IS NULL
        AND t.status IN ('SUCCESS', 'FAILED', 'CANCELLED')
    ORDER BY t.id
    FOR UPDATE SKIP LOCKED
), past AS MATERIALIZED (
    SELECT id FROM locked
    UNION ALL
    SELECT asked.id
    FROM asked
    WHERE (SELECT 1 FROM django_tasks_retry_task AS t WHERE t.id = asked.id) IS NULL
), tasks AS (
    DELETE FROM django_tasks_retry_task AS t USING past WHERE t.id = past.id
), events AS (
    DELETE FROM django_tasks_retry_taskevent AS e USING past WHERE e.task_id = past.id
), steps AS (
    DELETE FROM django_tasks_retry_step AS s USING past WHERE s.task_id = past.id
), results AS (
    DELETE FROM django_tasks_retry_taskresult AS r USING past WHERE r.task_id = past.id
)
SELECT (SELECT count(*) FROM past), ARRAY(
    SELECT t.id FROM django_tasks_retry_task AS t
    WHERE t.id = ANY (%(ids)s::uuid[]) AND t.backend = %(backend)s AND t.batch IS NOT NULL
)
