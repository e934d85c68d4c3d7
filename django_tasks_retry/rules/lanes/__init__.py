"""Pure decisions about lanes: limits and their declaration, templates, rate windows, shares."""
