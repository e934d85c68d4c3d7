"""The console: operate tasks from the Django admin. It calls the service layer and decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext

from .. import taskqueue
from ..models import Task

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Task]
else:
    Base = admin.ModelAdmin


@admin.register(Task)
class TaskAdmin(Base):
    list_display = ["id", "func_path", "queue", "status", "attempts", "max_attempts", "eta"]
    list_filter = ["status"]
    list_per_page = 25
    show_full_result_count = False
    ordering = ["-id"]
    actions = ["retry_selected", "cancel_selected"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Task | None = None) -> bool:
        return False

    def has_retry_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_tasks_retry.retry_task")

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("django_tasks_retry.cancel_task")

    @admin.action(description=_("Retry selected tasks"), permissions=["retry"])
    def retry_selected(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        ids = list(queryset.values_list("pk", flat=True))
        done = len(taskqueue.retry(ids, by=request.user, reason="retried in the admin"))
        self.tell(request, ngettext("%d task retried.", "%d tasks retried.", done) % done, len(ids) - done)

    @admin.action(description=_("Cancel selected tasks"), permissions=["cancel"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Task]) -> None:
        changed = taskqueue.cancel(
            queryset.values_list("pk", flat=True), by=request.user, reason="cancelled in the admin"
        )
        done = len(changed.done)
        self.tell(request, ngettext("%d task cancelled.", "%d tasks cancelled.", done) % done, changed.skipped)

    def tell(self, request: HttpRequest, done: str, skipped: int) -> None:
        self.message_user(request, done, messages.SUCCESS)
        if skipped:
            text = ngettext(
                "%d task skipped: its status does not allow it.",
                "%d tasks skipped: their status does not allow it.",
                skipped,
            )
            self.message_user(request, text % skipped, messages.WARNING)
