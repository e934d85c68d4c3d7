"""What a function's history tells: how long it waits and runs, and what changed since it last worked."""
