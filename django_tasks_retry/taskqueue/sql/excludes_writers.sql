-- Excludes writers: does a session lock the table of tasks in a mode that conflicts with that of an UPDATE? Then nobody
-- else can take a task, so leases hold. The statement reads no table of ours, so it does not wait itself.
SELECT EXISTS (
    SELECT 1
    FROM pg_locks
    WHERE locktype = 'relation'
        AND granted
        AND relation = to_regclass(%(table)s)
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
)
