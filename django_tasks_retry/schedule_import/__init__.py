"""Schedules of other queues, read from their tables or files: a plan first, which says what cannot come along."""

from .plan import SOURCES, Importable, ImportPlan, NotImportable, carry_out, plan_import

__all__ = ["SOURCES", "ImportPlan", "Importable", "NotImportable", "carry_out", "plan_import"]
