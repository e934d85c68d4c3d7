"""Tasks: the list, its filters and search, and the page of one task."""
