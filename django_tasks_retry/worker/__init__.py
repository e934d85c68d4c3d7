"""The process that claims, runs and reports."""
