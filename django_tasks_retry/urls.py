"""URLs for monitoring and progress: `path("tasks/", include("django_tasks_retry.urls"))`."""

from django.urls import path

from . import monitoring, progress

app_name = "django_tasks_retry"
urlpatterns = [
    path("metrics", monitoring.metrics, name="metrics"),
    path("live", monitoring.live, name="live"),
    path("ready", monitoring.ready, name="ready"),
    path("progress/<str:token>", progress.view, name="progress"),
]
