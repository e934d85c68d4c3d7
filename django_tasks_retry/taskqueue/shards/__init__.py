"""Shards: several databases behind one backend. A backend that has one database is never asked about any of this."""

from .answers import ask_all, check_answers, is_up
from .owners import BUCKETS, begin_after_migrate, hashed, home_of, is_owner, known_owners
from .owners import write_names, write_rows, wrong_names
from .placement import address, belonging, belonging_all, hold, insert_placed, shard_for, shard_of_id

__all__ = [
    "BUCKETS", "address", "ask_all", "begin_after_migrate", "belonging", "belonging_all", "check_answers", "hashed",
    "hold", "home_of", "insert_placed", "is_owner", "is_up", "known_owners", "shard_for", "shard_of_id",
    "write_names", "write_rows", "wrong_names",
]  # fmt: skip
