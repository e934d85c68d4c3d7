"""Subcommands that change something, each through the service layer, with actor and reason."""
