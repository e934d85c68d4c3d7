"""Pure values and functions: no database, no settings. Time and chance are arguments."""
