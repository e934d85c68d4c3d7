"""Sphinx: `sphinx-build -W docs docs/_build/html`."""

import re
from pathlib import Path

project = "django-tasks-retry"
copyright = "django-tasks-retry contributors"  # noqa: A001 - Sphinx wants this name
author = "django-tasks-retry contributors"
_source = (Path(__file__).parents[1] / "django_tasks_retry" / "__init__.py").read_text()
release = version = re.search(r'__version__ = "(.+)"', _source)[1]

extensions = []
html_theme = "furo"
html_title = f"django-tasks-retry {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
exclude_patterns = ["_build", "generated", "deploy", "benchmarks"]
nitpicky = True
suppress_warnings = []
