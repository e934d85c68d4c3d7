-- Leave: tasks that were copied into the table of their period are no longer needed where they moved.
DELETE FROM ONLY django_tasks_retry_task AS t
USING $archive AS a
WHERE t.id = a.id AND t.id > %(after)s AND t.id <= %(until)s AND a.id > %(after)s AND a.id <= %(until)s
