"""History in partitions, on PostgreSQL: what has succeeded leaves the table of tasks, and is dropped by its period."""
