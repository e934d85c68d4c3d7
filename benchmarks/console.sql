-- A bad night: mostly success, one error 50,000 times in a million, many rare ones, a backlog, some retrying.
INSERT INTO django_tasks_retry_task (
    id, func_path, args, kwargs, queue, priority, backend, status, eta, attempts, max_attempts, refunds, timeout,
    interval, locked_by, lock_expires_at, last_error, fingerprint, run_id, parent_id, retry_of_id, metadata,
    created_at, updated_at, started_at, last_attempt_at, finished_at
)
SELECT id, 'shop.tasks.' || (ARRAY['send_receipt', 'charge_card', 'sync_stock', 'resize_image'])[1 + n %% 4], '[4711]', '{}',
    (ARRAY['default', 'emails', 'bulk'])[1 + n %% 3], 0, 'default', status, CASE kind WHEN 'scheduled' THEN now() + interval '1 day' ELSE at END,
    CASE WHEN kind IN ('ready', 'scheduled') THEN 0 ELSE 1 END, 5, 0, 60, 0,
    CASE kind WHEN 'running' THEN 'web-1/' || n %% 8 END, CASE kind WHEN 'running' THEN now() + interval '1 hour' END,
    CASE WHEN fingerprint IS NOT NULL THEN jsonb_build_object(
        'exception', 'shop.mail.MailServerDown', 'code', 'EXCEPTION', 'message', 'connection lost after ' || n || ' bytes',
        'traceback', repeat('  File "/srv/shop/mail.py", line 88, in deliver' || chr(10) || '    smtp.send(message)' || chr(10), 12)
    ) END,
    fingerprint, id, NULL, NULL, '{}', at, at, CASE WHEN kind NOT IN ('ready', 'scheduled') THEN at END,
    CASE WHEN kind NOT IN ('ready', 'scheduled') THEN at END,
    CASE WHEN status IN ('SUCCESS', 'FAILED', 'CANCELLED') THEN at + interval '1 second' END
FROM (
    SELECT n, id, at, kind,
        CASE kind WHEN 'outage' THEN 'FAILED' WHEN 'rare' THEN 'FAILED' WHEN 'running' THEN 'RUNNING' WHEN 'success' THEN 'SUCCESS'
            WHEN 'cancelled' THEN 'CANCELLED' ELSE 'PENDING' END AS status,
        CASE kind WHEN 'outage' THEN 'feedfacecafe0001' WHEN 'rare' THEN lpad(to_hex(4096 + n / 100 %% 183), 16, '0')
            WHEN 'retrying' THEN 'feedfacecafe0001' END AS fingerprint
    FROM (
        SELECT n, now() - (%(rows)s - n) * interval '0.08 second' AS at,
            (lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - (%(rows)s - n) * 80), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid AS id,
            CASE WHEN n %% 10000 = 5000 THEN 'running' WHEN n %% 100 < 5 THEN 'outage' WHEN n %% 100 = 5 THEN 'rare' WHEN n %% 100 = 6 THEN 'retrying'
                WHEN n %% 100 = 7 THEN 'cancelled' WHEN n %% 200 = 8 THEN 'scheduled' WHEN n %% 100 IN (9, 10, 11) THEN 'ready' ELSE 'success' END AS kind
        FROM generate_series(1, %(rows)s) AS n
    ) AS numbered
) AS made
