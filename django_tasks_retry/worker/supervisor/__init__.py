"""The supervisor's process: it looks after children, leases and deadlines, and runs no task."""
