-- Enqueue: one INSERT for all calls of a chunk, due by the same reading of the clock.
INSERT INTO django_tasks_retry_task ($columns, status, attempts, refunds, created_at, updated_at)
$rows
$on_conflict
RETURNING $returned
