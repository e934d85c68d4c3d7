"""Wake-ups: how a supervisor learns of work, and whom it wakes: as few as there is need of, here and on other hosts."""
