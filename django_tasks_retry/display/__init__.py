"""Texts about tasks for people: the same sentences, statuses and times in the console and in the shell."""
