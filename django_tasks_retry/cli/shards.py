"""Shards on the command line: how they stand, adding and draining one; and commands that ask all of them."""

import io
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from time import monotonic, sleep
from typing import Any
from uuid import UUID

from django.core.management.base import OutputWrapper

from ..conf import is_sharded, options, shard_backends, shard_number, shards_by_name
from ..display.formatting import format_duration, format_number
from ..errors import ShardAway
from ..taskqueue.control import rebalance, set_draining, shard_named, shard_standings
from ..taskqueue.database import database
from ..taskqueue.shards import ask_all, check_answers, shard_of_id
from .output import Column, Output
from .subcommand import YES, CliError, Context, Exit, Subcommand, actor, command, option

AGAIN_SECONDS = 0.5
WHOLE = ("shards", "shards add", "shards drain", "enqueue", "signal", "preflight", "archive", "archive read")
"""Commands that find their shards by themselves."""

SLOW = ("verify", "partitions export", "late")
"""Commands that may take longer than a shard has to answer a question: one shard after the other."""

NAME = option("name", metavar="NAME", help="as OPTIONS['SHARDS'] names it")
WAIT = option("--wait", type=float, default=60.0, metavar="SECONDS", help="for unfinished work (default: 60)")
SHARDS: Sequence[Column[Any]] = (
    Column("shard", "SHARD"),
    Column("state", "STATE"),
    Column("buckets", "BUCKETS"),
    Column("due", "READY"),
    Column("oldest_seconds", "OLDEST", lambda row: format_duration(row["oldest_seconds"]) if row["due"] else ""),
)


@command("shards", "The databases of a sharded backend: what each holds, and whether it answers.")
def shards(context: Context) -> Exit:
    standings, away = shard_standings(context.backend)
    rows: list[Mapping[str, Any]] = []
    for name, shard in shards_by_name(context.backend).items():
        if (found := standings.get(shard)) is None:
            rows.append(dict.fromkeys(("buckets", "due", "oldest_seconds")) | {"shard": name, "state": "away"})
            continue
        state = "takes no new work" if found.is_draining else "works"
        row = {"buckets": found.buckets, "due": found.due, "oldest_seconds": found.oldest_seconds}
        rows.append({"shard": name, "state": state, **row})
    context.output.listing(rows, SHARDS, "OPTIONS['SHARDS'] is not set: all tasks live in one database.")
    return Exit.UNAVAILABLE if away else Exit.OK


@command("shards add", "Give a shard its share of the keys, or take it back into use.", NAME, WAIT, YES)
def add(context: Context) -> Exit:
    return change(context, is_draining=False, question="receives calls, and its share of lanes and unique keys.")


@command("shards drain", "Let a shard take no new work; what it has, it finishes.", NAME, WAIT, YES)
def drain(context: Context) -> Exit:
    return change(context, is_draining=True, question="takes no new work, and gives its lanes and unique keys away.")


def change(context: Context, *, is_draining: bool, question: str) -> Exit:
    shard = shard_named(context["name"], context.backend)
    context.confirm(f"The shard {context['name']!r} {question}")
    set_draining(shard, actor(), is_draining=is_draining)
    until, moved = monotonic() + context["wait"], 0
    while True:
        done, left = rebalance(context.backend)
        moved += done
        if not left or monotonic() > until:
            break
        context.output.progress(f"{left} buckets have unfinished work")
        sleep(AGAIN_SECONDS)
    text = f"{format_number(moved)} buckets moved."
    if left:
        text += f" {left} have unfinished work and stay until it has ended: type the same command again."
    context.output.answer({"moved": moved, "left": left}, text)
    return Exit.FAILED if left else Exit.OK


def run_over_shards(each: Subcommand, context: Context) -> Exit:
    """Run a subcommand for the shard that it is about, or for all of them."""
    found = shards_meant(context)
    if len(found) == 1:
        if is_sharded(found[0]) and each.name not in WHOLE:
            check_answers(found[0])
        return each.run(replace(context, backend=found[0])) or Exit.OK
    if {"interval", "follow", "pdb"} & context.options.keys():
        raise CliError(f"tasks {each.name} shows one shard: pass --shard {'|'.join(options(found[0]).shards)}.")
    is_slow = {"reason", "yes"} & context.options.keys() or each.name in SLOW
    return change_each(each, context, found) if is_slow else ask_each(each, context)


def shards_meant(context: Context) -> list[str]:
    backend = context.backend
    is_whole = context["subcommand"] in WHOLE or context.options.get("prometheus")
    if not is_sharded(backend) or is_whole or shard_number(backend):
        return [backend]
    if name := context.options.get("shard"):
        return [shard_named(name, backend)]
    with suppress(ValueError, TypeError, AttributeError):
        return [shard_of_id(UUID(context.options.get("id")), backend)]
    return list(shard_backends(backend))


def ask_each(each: Subcommand, context: Context) -> Exit:
    """Print what each shard answers, one after the other."""

    def ask(shard: str) -> tuple[str, str, Exit]:
        data, talk = io.StringIO(), io.StringIO()
        output = Output(OutputWrapper(data), OutputWrapper(talk), as_json=context.output.as_json, colour=False)
        try:
            code = each.run(replace(context, output=output, backend=shard)) or Exit.OK
        except CliError as error:
            talk.write(f"{error}\n")
            code = error.code
        return data.getvalue(), talk.getvalue(), code

    answers, away = ask_all(context.backend, ask)
    found = {shard: answer for shard, answer in answers.items() if answer[2] is not Exit.NOT_FOUND} or answers
    for shard, (data, talk, _) in found.items():
        context.output.say(f"{database(shard)}:")
        context.output.stdout.write(data, ending="")
        context.output.talk(talk)
    return conclude(context, [code for _, _, code in found.values()], away)


def change_each(each: Subcommand, context: Context, shards: list[str]) -> Exit:
    """Change one shard after the other, each with its own question."""
    codes, refusals, away = [], [], []
    for shard in shards:
        try:
            check_answers(shard)
        except ShardAway:
            away.append(database(shard))
            continue
        try:
            codes.append(each.run(replace(context, backend=shard)) or Exit.OK)
        except CliError as error:
            if error.code is not Exit.NOT_FOUND:
                raise
            refusals.append(error)
    if refusals and not codes:
        context.output.say(str(refusals[0]))
        codes = [Exit.NOT_FOUND]
    return conclude(context, codes, away)


def conclude(context: Context, codes: list[Exit], away: list[str]) -> Exit:
    for name in away:
        context.output.say(f"The shard {name!r} does not answer: its tasks are missing here.")
    return max(codes, default=Exit.OK) or (Exit.UNAVAILABLE if away else Exit.OK)
