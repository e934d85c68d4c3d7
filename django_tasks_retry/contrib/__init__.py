"""Middleware for tools that a project may use, each with an extra such as `[otel]`; imports of other schedules."""
