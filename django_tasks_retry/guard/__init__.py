"""The contract inside the database: triggers made from the table of legal moves.

A stray `save()`, an admin form or a psql session meets the same rules as the service layer. A worker's report must
state its lease in `moved_by`; the triggers compare it with the lease in the row, by the queue's own clock.

Installed after every `migrate`, because SQLite drops a table's triggers whenever it remakes the table.
"""

from .installation import close_after_fixture, ensure, has_tables, install, install_after_migrate, is_migrated, missing
from .installation import missing_migrations, open_for_fixture, remove_before_migrate, unenforced
from .postgresql_install import postgresql_functions, postgresql_seals, postgresql_triggers
from .sqlite import register_on_sqlite, sqlite_statements
