from __future__ import annotations

from django.db.backends.postgresql.base import DatabaseWrapper as Plain

from tests.worker.stateful import KeepsTenant


class DatabaseWrapper(KeepsTenant, Plain):
    pass
