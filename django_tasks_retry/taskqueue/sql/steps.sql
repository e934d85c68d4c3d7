-- Steps: what a task remembers.
SELECT name, kind, result FROM django_tasks_retry_step WHERE task_id = %(id)s
