"""dramatiq in Redis, with threads and the middleware that looks after connections."""

from __future__ import annotations

import os

import django_site
import dramatiq
import verbs
from dramatiq.brokers.redis import RedisBroker

django_site.set_up()
broker = RedisBroker(url=os.environ["BENCHMARK_REDIS"])
dramatiq.set_broker(broker)


@dramatiq.actor(actor_name="real")
def real_actor(number: int) -> None:
    import real_body

    real_body.run(number)


def real(count: int) -> None:
    import real_body

    real_body.create()
    for number in range(count):
        real_actor.send(number)


def work(processes: int, threads: int) -> None:
    verbs.crew(1, "-m", "dramatiq", "run_dramatiq", "-p", str(processes), "-t", str(threads))


if __name__ == "__main__":
    verbs.main({"setup": lambda: None, "real": real, "work": work})
else:
    from django_dramatiq.middleware import DbConnectionsMiddleware

    broker.add_middleware(DbConnectionsMiddleware())
