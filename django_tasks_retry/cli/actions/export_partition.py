from __future__ import annotations

import argparse
from pathlib import Path

from ...conf import EXPORT_FORMATS
from ...taskqueue.operator.export import Export
from ...taskqueue.partitions.export import export_pages, path_of
from ...taskqueue.partitions.layout import read_layout
from ...taskqueue.partitions.periods import stretch_named
from ..exit_codes import CliError, Exit
from ..selecting import counted
from ..subcommand import Context, Subcommand


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="as tasks partitions lists it, such as p20270131")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="where the file goes")
    parser.add_argument("--as", dest="format", choices=EXPORT_FORMATS, default="jsonl", help="of the file")


def run(context: Context) -> Exit:
    layout, stretch = read_layout(context.using), stretch_named(context["name"])
    if layout is None or stretch not in layout.stretches or stretch is None:
        raise CliError(f"History has no partition {context['name']!r}. See: tasks partitions", Exit.NOT_FOUND)
    export, done = Export(context["folder"], context["format"]), 0
    try:
        for page in export_pages(stretch, export, context.using):
            done += page
            context.output.progress(f"{counted(done)} exported")
    except (OSError, ImportError) as error:
        raise CliError(f"Cannot export to {export.folder}: {error}", Exit.REFUSED) from error
    context.output.progress("", is_last=True)
    context.output.say(f"{counted(done)} exported. {path_of(stretch, export, context.using)} holds the period.")
    return Exit.OK


COMMAND = Subcommand(
    "export-partition", "A period of a partitioned history as one file, as it is stored: secrets are not hidden.", run,
    add_arguments,
)  # fmt: skip
