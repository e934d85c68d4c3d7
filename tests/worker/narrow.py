"""An app that narrows the channels of statistics, in the worker that installs it: few queues fill them."""

from __future__ import annotations

import socket
from typing import Any

from django.apps import AppConfig


class NarrowChannels(AppConfig):
    name = "tests.worker.narrow"
    label = "narrow_channels"

    def ready(self) -> None:
        from django_tasks_retry.worker.child.child import Child
        from django_tasks_retry.worker.shared import messages
        from django_tasks_retry.worker.supervisor import child_process

        class NarrowChild(Child):
            def __init__(self, *arguments: Any, **options: Any) -> None:
                super().__init__(*arguments, **options)
                self.stats_channel.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)

        messages.MOST_UNSENT = 1000
        child_process.Child = NarrowChild
