-- Tasks of every kind, at their real proportions: most have succeeded.
INSERT INTO django_tasks_retry_task (
    id, func_path, args, kwargs, queue, priority, backend, status, eta, attempts, max_attempts, refunds, timeout,
    interval, locked_by, lock_expires_at, last_error, fingerprint, run_id, parent_id, retry_of_id, metadata,
    created_at, updated_at, finished_at
)
SELECT id, 'tests.tasks.noop', '[]', '{}', CASE WHEN n = 7 THEN 'rare' WHEN n %% 4 = 0 THEN 'emails' ELSE 'default' END,
    0, 'default', status, at, CASE WHEN status = 'PENDING' AND n %% 3 > 0 THEN 0 ELSE 1 END, 5, 0, 60, 0,
    CASE status WHEN 'RUNNING' THEN 'w-1/' || n END, CASE status WHEN 'RUNNING' THEN at + interval '1 minute' END,
    CASE status WHEN 'FAILED' THEN '{"exception": "builtins.ValueError", "code": "EXCEPTION", "message": "boom", "traceback": ""}'::jsonb END,
    CASE WHEN status = 'FAILED' OR status = 'PENDING' AND n %% 3 = 0 THEN lpad(to_hex(161 + n %% 40), 16, '0') END,
    CASE WHEN n %% 50 = 0 THEN md5('run' || n %% 1000)::uuid ELSE id END,
    CASE WHEN n %% 50 = 0 THEN md5('parent' || n %% 1000)::uuid END, CASE WHEN n %% 100 = 50 THEN md5('of' || n)::uuid END,
    '{}', at, at, CASE WHEN status IN ('SUCCESS', 'FAILED', 'CANCELLED') THEN at + interval '1 second' END
FROM (
    SELECT n, (lpad(to_hex(1700000000000 + n * 2), 12, '0') || '70008' || substr(md5(n::text), 1, 15))::uuid AS id,
        CASE n %% 100 WHEN 1 THEN 'FAILED' WHEN 2 THEN 'FAILED' WHEN 3 THEN 'CANCELLED' WHEN 4 THEN 'PENDING'
            ELSE CASE WHEN n %% 5000 = 5 THEN 'RUNNING' ELSE 'SUCCESS' END END AS status,
        now() - (%(rows)s - n) * interval '1 second' AS at
    FROM generate_series(1, %(rows)s) AS n
) AS made
