"""The function by which SQL enqueues on PostgreSQL: triggers, other languages, psql."""

from ..clock import FUNCTION as NOW
from .conditions import TASK

NAME = "django_tasks_retry_enqueue"
ARGUMENTS = (
    "func_path text, args jsonb DEFAULT '[]', kwargs jsonb DEFAULT '{{}}', queue text DEFAULT 'default', "
    "priority int DEFAULT 0, eta timestamptz DEFAULT NULL, unique_key text DEFAULT NULL, max_attempts int DEFAULT 5, "
    "timeout float8 DEFAULT 3600, lane text DEFAULT '', metadata jsonb DEFAULT '{{}}', "
    "expires_at timestamptz DEFAULT NULL, backend text DEFAULT 'default'"
)
TAKEN = "status IN ('PENDING', 'RUNNING') AND unique_key IS NOT NULL"
# An id begins with its time, as in Python. The holder of a key may end before it is read: then the key is free.
# The function has a search_path of its own, so that nobody lends it another table, operator or function.
CREATE = f"""
CREATE OR REPLACE FUNCTION {{schema}}.{NAME}({ARGUMENTS}) RETURNS uuid
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $enqueue$
#variable_conflict use_column
DECLARE
  new_id uuid := (
    lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'
    || substr(replace(gen_random_uuid()::text, '-', ''), 14)
  )::uuid;
  stored uuid;
BEGIN
  IF $1 NOT LIKE '%_._%' OR $4 = '' OR $7 = '' THEN
    RAISE EXCEPTION 'InvalidCall: give the whole path of a registered task, and no empty queue or unique_key';
  END IF;
  LOOP
    INSERT INTO {{schema}}.{TASK} (
      id, run_id, func_path, args, kwargs, unique_key, metadata, lane, backend, max_attempts, timeout, "interval",
      created_at, expires_at, queue, priority, eta, refunds, status, attempts, updated_at
    )
    SELECT new_id, new_id, $1, $2, $3, $7, $11, $10, $13, $8, $9, 0, now, $12, $4, $5, COALESCE($6, now), 0, 'PENDING',
      0, now
    FROM (SELECT {{schema}}.{NOW}() AS now) AS clock
    ON CONFLICT (queue, unique_key) WHERE {TAKEN} DO NOTHING
    RETURNING id INTO stored;
    EXIT WHEN stored IS NOT NULL;
    SELECT t.id INTO stored FROM {{schema}}.{TASK} AS t WHERE t.queue = $4 AND t.unique_key = $7 AND {TAKEN};
    EXIT WHEN stored IS NOT NULL;
  END LOOP;
  PERFORM pg_notify('django_tasks_retry', 'work:' || $4);
  RETURN stored;
END $enqueue$"""  # noqa: S608 - names of our own
