"""Verbs about schedules: plan them, decide about them, and enqueue what is due."""
