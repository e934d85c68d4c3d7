"""The task of huey, known by its module, which must not be __main__."""

from __future__ import annotations

from huey.contrib.djhuey import db_task


@db_task()
def real(number: int) -> None:
    import real_body

    real_body.run(number)
