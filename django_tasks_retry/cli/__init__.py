"""The command line, `manage.py tasks …`: one module for each noun."""
