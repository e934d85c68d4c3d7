-- Lock limits: the rows of these lanes, queues and functions, but those that others have locked. In one order, so that two
-- that lock the same cannot deadlock.
SELECT s.id, s.kind, s.name, s.running, s.starts, s.per, s.weight, s.paused_at, s.probe_at, s.probing_since, s.counts_from,
    s.created_at, s.recent, django_tasks_retry_now()
FROM unnest(%(kinds)s::text[], %(names)s::text[]) AS asked (kind, name)
JOIN django_tasks_retry_lanestate AS s ON s.kind = asked.kind AND s.name = asked.name
ORDER BY s.kind, s.name
FOR NO KEY UPDATE OF s SKIP LOCKED
