"""Does a history keep the contract? Reads what is stored, and nothing of the code that wrote it."""
