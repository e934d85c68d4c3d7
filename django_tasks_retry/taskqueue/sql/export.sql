-- Export: tasks with all that tells of them, one JSON text each, as it is stored; secrets in arguments and results, too.
SELECT t.id, jsonb_build_object(
    'task', to_jsonb(t),
    'result', (SELECT to_jsonb(r) FROM django_tasks_retry_taskresult AS r WHERE r.task_id = t.id),
    'events', COALESCE(
        (SELECT jsonb_agg(e ORDER BY e.id) FROM django_tasks_retry_taskevent AS e WHERE e.task_id = t.id), '[]'
    ),
    'steps', COALESCE((SELECT jsonb_agg(s ORDER BY s.id) FROM django_tasks_retry_step AS s WHERE s.task_id = t.id), '[]')
)::text
FROM django_tasks_retry_task AS t
WHERE t.id = ANY (%(ids)s::uuid[])
ORDER BY t.id
LIMIT %(size)s
