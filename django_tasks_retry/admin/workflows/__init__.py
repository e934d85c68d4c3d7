"""Steps, batches and runs on the pages of the console."""
