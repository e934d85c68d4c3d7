"""Partitioned history, on PostgreSQL: tasks that succeeded are archived by period, and dropped with it."""
