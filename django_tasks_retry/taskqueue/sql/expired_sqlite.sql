-- Expired: what expired before its first attempt began, as in cancel.sql, by the index dtr_expiring.
SELECT id
FROM django_tasks_retry_task
WHERE expires_at IS NOT NULL
    AND expires_at <= django_tasks_retry_now()
    AND finished_at IS NULL
    AND locked_by IS NULL
    AND attempts = refunds
ORDER BY expires_at
LIMIT %(limit)s
