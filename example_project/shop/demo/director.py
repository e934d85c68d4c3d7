"""The director: begins the scenes, gives two cues, and knows when all is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status

from .. import tasks
from . import scenes
from .scenes import Scene

CANCEL_AFTER = 15  # pages, before the long task is cancelled
LOOK_SECONDS = 0.15


class Director:
    def __init__(self) -> None:
        self.scenes = scenes.all_scenes()
        self.crowd: list[UUID] = []

    def begin(self) -> None:
        for scene in self.scenes:
            scene.run_id = scene.begin()
        everybody = [(tasks.tell_warehouse, [n]) for n in range(1, 101)]
        self.crowd = [task.pk for task in Task.objects.enqueue_many(everybody)]

    def watch(self, show: Callable[[], None], seconds: float, is_working: Callable[[], bool]) -> bool:
        """Until all is over. False where that took too long, or where the worker left."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and is_working():
            scenes.find_cast(self.scenes)
            self.give_cues()
            show()
            if all(scene.is_over for scene in self.scenes) and not self.crowd_left():
                return True
            time.sleep(LOOK_SECONDS)
        return False

    def give_cues(self) -> None:
        for scene in self.scenes:
            if is_rebuilding(scene) and (scene.cast[0].progress or {}).get("done", 0) >= CANCEL_AFTER:
                cancel(scene, "an operator changed their mind")
            if is_repeating(scene) and succeeded(scene) >= scenes.REPORTS:
                cancel(scene, "the demo has seen enough of it")

    def crowd_left(self) -> int:
        return Task.objects.unfinished().filter(pk__in=self.crowd).count()

    def end(self) -> None:
        """Nothing of the demo is left waiting."""
        scenes.find_cast(self.scenes)
        for scene in self.scenes:
            cancel(scene, "the demo is over")
        taskqueue.cancel(self.crowd, by="demo", reason="the demo is over")


def is_rebuilding(scene: Scene) -> bool:
    return any(task.func_path.endswith(".rebuild_catalogue") and not task.is_finished for task in scene.cast)


def is_repeating(scene: Scene) -> bool:
    return any(task.interval and not task.is_finished for task in scene.cast)


def succeeded(scene: Scene) -> int:
    return sum(task.status == Status.SUCCESS for task in scene.cast)


def cancel(scene: Scene, reason: str) -> Any:
    return taskqueue.cancel([task.pk for task in scene.cast if not task.is_finished], by="demo", reason=reason)
