"""For monitoring: `path("tasks/", include("django_tasks_retry.urls"))`."""

from __future__ import annotations

from django.urls import path

from ..monitoring import views

app_name = "django_tasks_retry"
urlpatterns = [
    path("metrics", views.metrics, name="metrics"),
    path("live", views.live, name="live"),
    path("ready", views.ready, name="ready"),
]
