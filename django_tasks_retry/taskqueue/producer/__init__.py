"""Verbs of whoever asks for work: a call becomes a row, and workers are woken."""
