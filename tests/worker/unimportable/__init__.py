"""An app whose tasks belong to another queue."""
