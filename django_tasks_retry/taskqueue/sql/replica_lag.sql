-- Replica lag: how old this database may be, in seconds; 0 on a primary.
-- A replica that has replayed all that it received is as new as its primary, for as long as they are connected.
SELECT CASE
    WHEN NOT pg_is_in_recovery() THEN 0
    WHEN pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() AND EXISTS (SELECT FROM pg_stat_wal_receiver) THEN 0
    ELSE EXTRACT(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())
END::float8
