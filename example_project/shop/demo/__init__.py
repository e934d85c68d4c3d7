"""The parts of `manage.py demo`: scenarios, their runner, a live table, a report, and processes."""
