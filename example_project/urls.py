from django.contrib import admin
from django.urls import path

from . import health
from .shop import views

urlpatterns = [
    path("", views.orders, name="orders"),
    path("admin/", admin.site.urls),
    path("livez", health.live),
    path("readyz", health.ready),
]
