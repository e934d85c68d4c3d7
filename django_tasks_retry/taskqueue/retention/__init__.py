"""Retention: prune finished tasks row by row, or archive them by period and drop that as a whole, on PostgreSQL."""
