"""Analysis of a function's history: how long it waits and runs, and what changed since it last worked."""
