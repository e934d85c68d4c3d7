"""Pauses or reports functions that fail since the newest release; one of the workers looks, once a minute."""

from ....analysis.releases import guard_release
from ....conf import options
from .services import Periodic


class DeployGuard(Periodic):
    seconds, is_elected = 60.0, False

    def is_due(self) -> bool:
        return self.is_elected and options(self.backend).deploy_guard is not None and super().is_due()

    def run(self) -> int:
        self.database.call(lambda: guard_release(self.backend))
        return 0
