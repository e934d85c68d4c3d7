-- Count leases: as count_leases.sql, for SQLite, which has one writer.
SELECT asked.kind, asked.name, CASE asked.kind
    WHEN 'lane' THEN (
        SELECT count(*) FROM django_tasks_retry_task AS t
        WHERE t.lane > '' AND t.attempts > 0 AND t.finished_at IS NULL AND t.lane = asked.name AND t.status = 'RUNNING'
    )
    WHEN 'queue' THEN (
        SELECT count(*) FROM django_tasks_retry_task AS t WHERE t.status = 'RUNNING' AND t.queue = asked.name
    )
    ELSE (SELECT count(*) FROM django_tasks_retry_task AS t WHERE t.status = 'RUNNING' AND t.func_path = asked.name)
END
FROM (
    SELECT json_extract(value, '$[0]') AS kind, json_extract(value, '$[1]') AS name FROM json_each(%(labels)s)
) AS asked
