"""Shards: which database holds which bucket of keys. Every shard keeps a copy; the rows of one database stay away."""

from django.db import models
from django.utils.translation import gettext_lazy as _


class Shard(models.Model):
    """One database of a sharded backend, by the number that stands in the ids of its tasks."""

    number = models.PositiveSmallIntegerField(primary_key=True)
    name = models.CharField(_("name"), max_length=64)
    is_draining = models.BooleanField(_("takes no new work"), default=False)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return self.name


class ShardBucket(models.Model):
    """The owner of a bucket. Only the copy of the owner itself decides; the one of a higher version is newer."""

    bucket = models.PositiveSmallIntegerField(primary_key=True)
    owner = models.PositiveSmallIntegerField(_("owner"))
    version = models.PositiveIntegerField(_("version"), default=0)

    class Meta:
        default_permissions = ()

    def __str__(self) -> str:
        return f"{self.bucket}: {self.owner}"
