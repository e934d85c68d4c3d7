"""Control: what people and code decide about tasks, queues, lanes, schedules and workers; and circuit breakers."""

from .decisions import KINDS, SCHEDULE, Pausable, pause_of
from .moving import ShardStanding, rebalance, set_draining, shard_named, shard_standings
