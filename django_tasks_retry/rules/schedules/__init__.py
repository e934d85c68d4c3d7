"""Schedules: when they run, and how code declares them."""
