"""What any worker does for the whole queue."""
