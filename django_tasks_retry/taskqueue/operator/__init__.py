"""Verbs and questions of whoever looks after the queue: cancel, retry, pause, prune, count."""
