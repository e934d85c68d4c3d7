"""URLs for monitoring, progress and the JSON API: `path("tasks/", include("django_tasks_retry.urls"))`."""

from django.urls import path

from . import monitoring, progress
from .cli.agents import http

app_name = "django_tasks_retry"
urlpatterns = [
    path("metrics", monitoring.metrics, name="metrics"),
    path("live", monitoring.live, name="live"),
    path("ready", monitoring.ready, name="ready"),
    path("api/", http.description, name="api"),
    path("api/propose", http.propose, name="propose"),
    path("api/<str:name>", http.question, name="question"),
    path("progress/<str:token>", progress.view, name="progress"),
]
