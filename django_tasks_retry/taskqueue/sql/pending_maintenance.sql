-- Pending maintenance: what there is to do for the whole queue, asked at once: a lost lease, a task that expired before it began, a
-- task that waits for a batch or a signal, a schedule. Each by an index, in whose order it is asked for.
SELECT
    (
        SELECT 1 FROM django_tasks_retry_task
        WHERE status = 'RUNNING' AND lock_expires_at <= django_tasks_retry_now()
        ORDER BY locked_by
        LIMIT 1
    ) IS NOT NULL AS lost,
    COALESCE(
        (
            SELECT 1 FROM django_tasks_retry_task
            WHERE expires_at IS NOT NULL AND expires_at <= django_tasks_retry_now()
                AND finished_at IS NULL AND locked_by IS NULL AND attempts = refunds
            ORDER BY expires_at
            LIMIT 1
        ),
        (
            SELECT 1 FROM django_tasks_retry_task
            WHERE deadline_at IS NOT NULL AND deadline_at <= django_tasks_retry_now() AND finished_at IS NULL
            ORDER BY deadline_at
            LIMIT 1
        )
    ) IS NOT NULL AS expired,
    (
        SELECT 1 FROM django_tasks_retry_task
        WHERE finished_at IS NULL AND locked_by IS NULL AND waits_for IS NOT NULL
        ORDER BY waits_for, id
        LIMIT 1
    ) IS NOT NULL AS waiting,
    (SELECT 1 FROM django_tasks_retry_schedule LIMIT 1) IS NOT NULL AS scheduled
