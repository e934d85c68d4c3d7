"""The contract as pure values and functions: no database, no settings, no clock, no chance."""
