"""Retention: prune finished tasks row by row, or archive them by period and drop that as a whole, on PostgreSQL."""

from .archive import Archive, archive_of, find_exported
from .convert import partition_history, undo_partitioning
from .drop import partition_problems, partition_summaries
from .export import PeriodExport
from .layout import Period, partition_named, read_layout
