-- Hold buckets: their owners, as this database has it, until the transaction ends. Moving one waits for those who hold it.
SELECT b.bucket, b.version, b.owner
FROM django_tasks_retry_shardbucket AS b
WHERE b.bucket = ANY(%(buckets)s::int[])
ORDER BY b.bucket
FOR SHARE
