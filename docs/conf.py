"""Sphinx: `sphinx-build -W -n docs docs/_build/html`."""

import re
import sys
import tomllib
from pathlib import Path

import django
from django.conf import settings

project = "django-tasks-retry"
copyright = "django-tasks-retry contributors"  # noqa: A001 - Sphinx wants this name
author = "django-tasks-retry contributors"
_source = (Path(__file__).parents[1] / "django_tasks_retry" / "__init__.py").read_text(encoding="utf-8")
release = version = re.search(r'__version__ = "(.+)"', _source)[1]

sys.path.insert(0, str(Path(__file__).parents[1]))
settings.configure(
    SECRET_KEY="docs",  # noqa: S106
    USE_TZ=True,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_tasks_retry"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    TASKS={"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend"}},
)
django.setup()

extensions = ["sphinx.ext.autodoc"]
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {"no-undoc-members": True}
python_use_unqualified_type_names = True
html_theme = "furo"
html_title = f"django-tasks-retry {release}"
_urls = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
html_theme_options = {  # the address of the project is one setting: Source in pyproject.toml
    "source_repository": _urls["Source"],
    "source_branch": "main",
    "source_directory": "docs/",
    "footer_icons": [{"name": "Source", "url": _urls["Source"], "html": "Source", "class": ""}],
}
html_static_path = ["_static"]
html_css_files = ["tables.css"]
exclude_patterns = ["_build", "generated", "deploy", "benchmarks"]
nitpicky = True
default_role = "literal"  # docstrings write code in single backticks
nitpick_ignore_regex = [
    (
        "py:class",
        r"(collections|datetime|django|django_tasks|uuid)\..*|datetime|timedelta|UUID",
    ),  # documented elsewhere
    ("py:class", r"django_tasks_retry\.(api|errors|rules|taskqueue|testing)\..*"),  # users do not make them themselves
    ("py:class", r"AnyResult|AnyTask|BackoffLike|Observe"),  # aliases of types
    (
        "py:class",
        r"[A-DPR]|R_co|T_contra|RetryTask|TaskOf|TaskOptions|CallOptions|DeclaredOptions|Link|Unpack.*|.*\.bridge\.Context",
    ),  # for type checkers
]
suppress_warnings = []
