-- Clear strays: results that were left beside running tasks, from a time without the guard: their tasks could never end.
DELETE FROM django_tasks_retry_taskresult AS r
USING django_tasks_retry_task AS t
WHERE t.status = 'RUNNING' AND r.task_id = t.id
RETURNING r.task_id
