"""django-tasks-db, one task at a time in each process."""

from __future__ import annotations

import django_site

if __name__ == "__main__":
    django_site.main("django_tasks_db", "django_tasks_db.DatabaseBackend", "db_worker", queue_name="*")
