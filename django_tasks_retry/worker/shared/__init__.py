"""Shared by both processes of a worker: messages, memory, the database, the one exit."""
