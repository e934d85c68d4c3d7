"""Control: what people and code decide about tasks, queues, lanes, schedules and workers; and circuit breakers."""

from .decisions import KINDS, SCHEDULE, Pausable, pause_of
