"""The planted bugs. Each is one that a queue has shipped, or that this one could."""

from __future__ import annotations

from tests.mutants.books import BOOKS
from tests.mutants.budgets import BUDGETS, CLOCKS
from tests.mutants.bulk import BULK
from tests.mutants.children import CHILDREN
from tests.mutants.claiming import CLAIMING, KEYS_AND_ORDER
from tests.mutants.console import CONSOLE
from tests.mutants.flow_control import FLOW_CONTROL
from tests.mutants.guarding import GUARD, INSTANTS
from tests.mutants.hostile import BACKLOG, BOUNDED, FOREIGN_LOCKS, UNREADABLE
from tests.mutants.lanes import LANES
from tests.mutants.leases import FENCES, LEASES
from tests.mutants.neighbourly import ENQUEUES, OTHERS
from tests.mutants.observing import COUNTERS, LINES, MIDDLEWARE, TRACES
from tests.mutants.partitions import PARTITIONS
from tests.mutants.schedules import SCHEDULES
from tests.mutants.shell import SHELL
from tests.mutants.survivors import SURVIVORS
from tests.mutants.workers import ANSWERS, LIVES, STATES, WAKING
from tests.mutants.workflows import WORKFLOWS

MUTANTS = (
    *FENCES,
    *LEASES,
    *BUDGETS,
    *CLAIMING,
    *CLOCKS,
    *BOOKS,
    *KEYS_AND_ORDER,
    *ANSWERS,
    *STATES,
    *LIVES,
    *WAKING,
    *CHILDREN,
    *UNREADABLE,
    *BOUNDED,
    *FOREIGN_LOCKS,
    *BACKLOG,
    *BULK,
    *CONSOLE,
    *INSTANTS,
    *GUARD,
    *ENQUEUES,
    *OTHERS,
    *MIDDLEWARE,
    *COUNTERS,
    *TRACES,
    *SCHEDULES,
    *WORKFLOWS,
    *PARTITIONS,
    *LANES,
    *LINES,
    *SHELL,
    *FLOW_CONTROL,
    *SURVIVORS,
)
