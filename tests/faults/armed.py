"""An app that arms a failpoint in the process that installs it."""

from __future__ import annotations

import os

from django.apps import AppConfig

from tests.faults.failpoints import arm


class Armed(AppConfig):
    name = "tests.faults"
    label = "failpoints"

    def ready(self) -> None:
        arm(*os.environ["FAILPOINT"].split(":"))
