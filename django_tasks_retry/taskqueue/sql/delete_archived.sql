-- Delete archived: remove tasks from the table of tasks that were copied into an archive.
DELETE FROM ONLY django_tasks_retry_task AS t
USING {archive} AS a
WHERE t.id = a.id AND t.id > %(after)s AND t.id <= %(until)s AND a.id > %(after)s AND a.id <= %(until)s
