"""One named test for each fault that applies; those that stand elsewhere are listed in coverage.py."""
