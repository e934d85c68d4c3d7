from __future__ import annotations

import argparse

from ..exit_codes import Exit
from ..records import HEADINGS, LIST_COLUMNS, task_record, task_row
from ..selecting import add_words, newest, read_query, read_tasks
from ..subcommand import Context, Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_words(parser)
    parser.add_argument(
        "-n", "--limit", type=int, default=25, metavar="N", help="at most so many (default: 25; 0: all)"
    )
    parser.add_argument("--ids", action="store_true", help="whole ids only, one per line")


def run(context: Context) -> Exit:
    query, output, rows, found = read_query(context), context.output, [], 0
    for page in newest(context, query, context["limit"]):
        found += len(page)
        if context["ids"]:
            for task_id in page:
                output.line(str(task_id))
            continue
        now = context.scope.now
        for task in read_tasks(context, page, LIST_COLUMNS):
            if output.as_json:
                output.record(task_record(task, now))
            else:
                rows.append(task_row(task, now))
    if rows:
        output.table(HEADINGS, rows)
    if not found:
        output.say("No task matches.")
        return Exit.NOT_FOUND
    if context["limit"] and found >= context["limit"]:
        output.say(f"The newest {found}; -n 0 shows all.")
    return Exit.OK


COMMAND = Subcommand("list", "Tasks that match, the newest first.", run, add_arguments)
