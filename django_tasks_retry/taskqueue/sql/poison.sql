-- Poison: due tasks that must run alone, by the index dtr_suspects, which holds no other.
SELECT id, queue, priority, eta, func_path, lane
FROM django_tasks_retry_task
WHERE crashes >= 2
    AND finished_at IS NULL
    AND locked_by IS NULL
    AND eta <= django_tasks_retry_now()
    AND backend = %(backend)s
ORDER BY eta
LIMIT %(limit)s OFFSET %(offset)s
