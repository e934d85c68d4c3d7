"""Models without rows, so that every admin lists the console's pages among the models."""

from django.utils.translation import gettext_lazy as _

from .tasks import Task


class Overview(Task):
    """Lets every admin list the overview page among the models."""

    class Meta:
        proxy = True
        verbose_name = _("overview")
        verbose_name_plural = _("overview")
        default_permissions = ()


class FailureGroup(Task):
    """Lets every admin list the page of failures among the models."""

    class Meta:
        proxy = True
        verbose_name = _("failure")
        verbose_name_plural = _("failures")
        default_permissions = ()


class TaskFunction(Task):
    """Lets every admin list the page of functions among the models."""

    class Meta:
        proxy = True
        verbose_name = _("function")
        verbose_name_plural = _("functions")
        default_permissions = ()
