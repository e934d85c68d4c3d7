"""Each row names itself, in logs and in the admin of a project."""

import pytest
from django.apps import apps
from django.db.models import CharField, TextField

MODELS = [model for model in apps.get_app_config("django_tasks_retry").get_models() if not model._meta.proxy]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_a_row_is_named_by_what_is_in_it(model):
    fields = model._meta.concrete_fields
    texts = {field.attname: f"some-{field.attname}" for field in fields if isinstance(field, CharField | TextField)}
    assert ("some-" if texts else "4711") in str(model(**(texts or {"pk": 4711})))
