-- Move on: to a schedule's next slot, with what its last one came to. The tick has locked the row.
UPDATE django_tasks_retry_schedule
SET next_at = %(next_at)s, last_at = %(last_at)s, last_outcome = %(outcome)s
WHERE name = %(name)s
