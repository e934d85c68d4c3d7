-- Estimate failures: about how many tasks failed with each of the commonest fingerprints, by what the last ANALYZE saw. A
-- task that failed and then succeeded keeps its fingerprint, so no group is taken for larger than all failures together.
SELECT common.fingerprint, (least(common.share, failed.share) * tasks.reltuples)::bigint
FROM pg_class AS tasks
JOIN pg_namespace AS schema ON schema.oid = tasks.relnamespace
JOIN pg_stats AS seen ON seen.schemaname = schema.nspname AND seen.tablename = tasks.relname AND seen.attname = 'fingerprint'
JOIN pg_stats AS ends ON ends.schemaname = schema.nspname AND ends.tablename = tasks.relname AND ends.attname = 'status'
CROSS JOIN LATERAL unnest(seen.most_common_vals::text::text[], seen.most_common_freqs) AS common (fingerprint, share)
JOIN LATERAL unnest(ends.most_common_vals::text::text[], ends.most_common_freqs) AS failed (status, share)
    ON failed.status = 'FAILED'
WHERE tasks.oid = to_regclass(%(table)s)
