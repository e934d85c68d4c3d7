-- Estimate failures: about how many tasks failed with each of the commonest fingerprints, by what the last ANALYZE saw. A
-- task that failed and then succeeded keeps its fingerprint, so no group is taken for larger than all failures together.
SELECT common.fingerprint, least(common.share * tasks.reltuples, failures.reltuples)::bigint
FROM pg_class AS tasks
JOIN pg_index AS held ON held.indrelid = tasks.oid
JOIN pg_class AS failures ON failures.oid = held.indexrelid AND failures.relname = 'dtr_failures'
JOIN pg_namespace AS schema ON schema.oid = tasks.relnamespace
JOIN pg_stats AS seen ON seen.schemaname = schema.nspname AND seen.tablename = tasks.relname AND seen.attname = 'fingerprint'
CROSS JOIN LATERAL unnest(seen.most_common_vals::text::text[], seen.most_common_freqs) AS common (fingerprint, share)
WHERE tasks.oid = to_regclass(%(table)s)
