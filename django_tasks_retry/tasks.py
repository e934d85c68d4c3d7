"""Tasks of the package's own, which workers find as they find those of every app."""

from typing import Any

from .compat import task
from .taskqueue.typed import function_of, write_returned
from .taskqueue.workflows import call_of


@task(takes_context=True)
def run_chain(context: Any, calls: list[dict[str, Any]]) -> Any:
    """Run calls one after the other, each with the result of the one before as its first argument."""
    result = None
    for number, spec in enumerate(calls):
        before = () if number == 0 else (result,)
        result = context.call(f"{number + 1}: {spec['func']}", call_of(spec, before))
    return write_returned(function_of(calls[-1]["func"]), result, "The return value")
