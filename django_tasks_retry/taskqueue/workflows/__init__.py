"""Work made of many tasks: what a task remembers, batches, signals, and who is woken when they come."""
