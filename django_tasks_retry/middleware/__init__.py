"""Code of a project around every enqueue and every attempt, and at the turns of a worker's life."""

from .base import Attempt, Call, Ending, Layer, Middleware
from .installed import hooks, installed, make
from .layers import Layers

__all__ = ["Attempt", "Call", "Ending", "Layer", "Layers", "Middleware", "hooks", "installed", "make"]
