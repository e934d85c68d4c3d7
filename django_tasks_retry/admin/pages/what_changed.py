"""The panel that tells what changed since a function last worked: the context of `_what_changed.html`."""

from __future__ import annotations

from typing import Any

from ...analysis.sentences import sampled, sentences
from ...analysis.what_changed import what_changed
from ...display.scope import Scope


def change_context(fingerprint: str, scope: Scope, *, can_see_payload: bool) -> dict[str, Any]:
    """For one group of failures."""
    changed = what_changed(fingerprint, scope.using, can_see_payload=can_see_payload)
    if changed is None:
        return {}
    return {
        "changed": changed,
        "changes": sentences(changed, can_see_payload=can_see_payload),
        "compared": sampled(changed) if can_see_payload else "",
    }
