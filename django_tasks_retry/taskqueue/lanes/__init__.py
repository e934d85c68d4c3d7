"""Lanes: which limits hold, from code, settings and decisions, and how lanes stand."""
