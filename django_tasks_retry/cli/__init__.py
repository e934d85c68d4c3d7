"""The command line, `manage.py tasks …`: one small module per subcommand, in views/ and actions/."""
