"""Claiming: which due tasks a worker gets, how many of them, and when it asks again."""

from .limiter import awaited_by, begun_in
