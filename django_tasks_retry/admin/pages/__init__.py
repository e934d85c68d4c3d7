"""The other pages: overview, failures, queues and workers."""
