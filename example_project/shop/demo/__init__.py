"""What `manage.py demo` is made of: scenes, a director, a crew and a screen."""
