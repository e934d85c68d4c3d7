"""What `manage.py demo` is made of: scenarios, their runner, a live table, a report, and processes."""
