"""Real workers under fire, a journal that the tasks write themselves, and a checker over journal and events."""
