"""Pure decisions about lanes: limits, templates, windows of starts, shares."""
