-- Signal: what happened outside, by its name. The first of a name wins.
INSERT INTO django_tasks_retry_signal (name, payload, ts, actor)
VALUES (%(name)s, %(payload)s::jsonb, django_tasks_retry_now(), %(actor)s)
ON CONFLICT (name) DO NOTHING
