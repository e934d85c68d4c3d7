from django.apps import AppConfig
from django.db.backends.signals import connection_created
from django.db.models.signals import post_migrate, post_save, pre_migrate, pre_save
from django.utils.translation import gettext_lazy as _


class TasksRetryConfig(AppConfig):
    name = "django_tasks_retry"
    label = "django_tasks_retry"
    verbose_name = _("Task queue")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import bridge, checks, clock, compat, guard  # noqa: F401
        from .taskqueue.engines import install_after_migrate
        from .taskqueue.shards import begin_after_migrate

        connection_created.connect(clock.register_on_sqlite, dispatch_uid="django_tasks_retry.clock")
        connection_created.connect(guard.register_on_sqlite, dispatch_uid="django_tasks_retry.guard")
        pre_migrate.connect(guard.remove_before_migrate, sender=self, dispatch_uid="django_tasks_retry.guard")
        post_migrate.connect(guard.install_after_migrate, sender=self, dispatch_uid="django_tasks_retry.guard")
        uid = "django_tasks_retry.functions"
        post_migrate.connect(install_after_migrate, sender=self, dispatch_uid=uid)
        post_migrate.connect(begin_after_migrate, sender=self, dispatch_uid="django_tasks_retry.shards")
        for name in ("Task", "TaskResult", "TaskEvent", "Step"):
            model, uid = self.get_model(name), f"django_tasks_retry.fixture.{name}"
            pre_save.connect(guard.open_for_fixture, sender=model, dispatch_uid=uid)
            post_save.connect(guard.close_after_fixture, sender=model, dispatch_uid=uid)
