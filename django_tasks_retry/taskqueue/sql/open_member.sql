-- Open member: the first unfinished one from a place in a batch on, or of a later batch.
-- By a range of an index and in its order, for the reason given in suspended.sql.
SELECT m.batch, m.id
FROM django_tasks_retry_task AS m
WHERE m.finished_at IS NULL AND m.batch IS NOT NULL AND (m.batch, m.id) >= (%(batch)s, %(id)s)
ORDER BY m.finished_at, m.batch, m.id
LIMIT 1
