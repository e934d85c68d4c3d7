"""Workflows: steps that are recorded, batches and signals to wait for, and waking the tasks that wait."""
