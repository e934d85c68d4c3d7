"""Middleware for tools that a project may use; each module needs an extra, as in `django-tasks-retry[otel]`."""
