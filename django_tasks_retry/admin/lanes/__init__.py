"""The page of lanes."""
