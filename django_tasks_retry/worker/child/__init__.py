"""A child's process: it claims, runs and reports."""
