"""Subcommands that change nothing."""
