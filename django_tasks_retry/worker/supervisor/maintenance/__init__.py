"""The services that any worker does for the whole queue."""
