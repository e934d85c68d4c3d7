"""Verbs about schedules: plan them, decide about them, and enqueue what is due."""

from .edit import define_schedule, key_of, planned_columns, read_declaration, task_for
from .sync import definition_in_code, is_behind, listed_schedules, schedule_problems
from .tick import unfinished_runs
