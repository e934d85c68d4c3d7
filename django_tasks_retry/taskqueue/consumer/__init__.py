"""Verbs of workers: claim, report under the fence, renew, recover."""
