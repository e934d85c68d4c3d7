-- Export partition: as export.sql, a page of the tasks in one archive.
SELECT t.id, jsonb_build_object(
    'task', to_jsonb(t),
    'result', (SELECT to_jsonb(r) FROM django_tasks_retry_taskresult AS r WHERE r.task_id = t.id),
    'events', COALESCE(
        (SELECT jsonb_agg(e ORDER BY e.id) FROM django_tasks_retry_taskevent AS e WHERE e.task_id = t.id), '[]'
    ),
    'steps', COALESCE((SELECT jsonb_agg(s ORDER BY s.id) FROM django_tasks_retry_step AS s WHERE s.task_id = t.id), '[]')
)::text
FROM {archive} AS t
WHERE t.id > %(after)s
ORDER BY t.id
LIMIT %(size)s
