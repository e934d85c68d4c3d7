"""Actions on many tasks: chosen by a signed selection, confirmed, run in batches."""
