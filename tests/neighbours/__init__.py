"""What becomes of a task, and of the next one, when it goes wrong: ours beside the neighbours."""
