-- Late: unfinished tasks whose deadline has passed, begun or not, by dtr_deadlines.
SELECT id
FROM django_tasks_retry_task
WHERE deadline_at IS NOT NULL AND deadline_at <= django_tasks_retry_now() AND finished_at IS NULL
ORDER BY deadline_at
LIMIT %(limit)s
