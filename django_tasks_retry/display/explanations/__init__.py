"""Parts of why a task is not running: what its lane does, and what it waits for."""
