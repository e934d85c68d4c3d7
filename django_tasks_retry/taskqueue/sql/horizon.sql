-- Horizon: the transaction that keeps dead rows of this database from being cleaned up for the longest time.
-- Sessions of other roles are seen by members of pg_read_all_stats. Asked of the server's own views, no table.
SELECT pid, seconds, application, state, query
FROM (
    SELECT a.pid::text AS pid, EXTRACT(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
        a.application_name::text AS application, COALESCE(a.state, '') AS state, left(a.query, 1000) AS query
    FROM pg_stat_activity AS a
    WHERE a.datname = current_database() AND a.backend_xmin IS NOT NULL AND a.xact_start IS NOT NULL
        AND a.pid <> pg_backend_pid() AND a.backend_type IS DISTINCT FROM 'autovacuum worker'
    UNION ALL
    SELECT 'prepared', EXTRACT(epoch FROM clock_timestamp() - p.prepared)::float8, p.gid, 'prepared', ''
    FROM pg_prepared_xacts AS p
    WHERE p.database = current_database()
) AS holder
ORDER BY seconds DESC
LIMIT 1
