-- Signal: as signal.sql, for SQLite.
INSERT INTO django_tasks_retry_signal (name, payload, ts, actor)
VALUES (%(name)s, %(payload)s, django_tasks_retry_now(), %(actor)s)
ON CONFLICT (name) DO NOTHING
