"""Selection of tasks: one grammar for the console's search box and for the command line."""
