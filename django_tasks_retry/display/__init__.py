"""What people are told about tasks, in the console and in the shell: the same sentences, statuses and times."""
