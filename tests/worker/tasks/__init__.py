"""Tasks that behave, and tasks that misbehave in every way the tests could think of."""

# ruff: noqa: F403 - the tests speak of `tasks.canary`, wherever it is written
from __future__ import annotations

import os
from importlib import import_module

from . import receivers as receivers
from .databases import *
from .exits import *
from .hostile import *
from .leaks import *
from .marks import *
from .plain import *
from .stuck import *
from .workflows import *

if "EXTRA_MODULE" in os.environ:
    import_module(os.environ["EXTRA_MODULE"])
