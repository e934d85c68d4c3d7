"""Database engines whose connections remember what was said to them, as those of django-tenants do."""

from __future__ import annotations


class KeepsTenant:
    tenant = "public"

    def set_tenant(self, tenant: str) -> None:
        self.tenant = tenant
