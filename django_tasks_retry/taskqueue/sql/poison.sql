-- Poison: due tasks that must run alone, by the index dtr_waiting, which holds no other that waits for nothing.
SELECT id, queue, priority, eta, func_path, lane
FROM django_tasks_retry_task
WHERE finished_at IS NULL
    AND locked_by IS NULL
    AND waits_for IS NULL
    AND crashes >= 2
    AND eta <= django_tasks_retry_now()
    AND backend = %(backend)s
ORDER BY eta
LIMIT %(limit)s OFFSET %(offset)s
