"""What both processes of a worker use: their messages, their shared memory, the database, the one exit."""
