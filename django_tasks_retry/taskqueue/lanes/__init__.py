"""Lanes of tasks: their limits, claims under them, and what people decide about them."""
