-- Archive: copy tasks that have succeeded, and in time for their period, into its table; who keeps one locked keeps it.
-- The guard compares each row with the one that stands in the table of tasks, so they are copied first and leave then.
INSERT INTO $archive ($columns)
SELECT $columns
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
