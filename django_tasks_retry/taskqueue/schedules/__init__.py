"""Verbs about schedules: plan them, decide about them, and enqueue what is due."""

from .edit import define_schedule, planned_columns, read_declaration
from .sync import definition_in_code, is_behind, listed_schedules, schedule_problems
from .tick import task_for, unfinished_runs
