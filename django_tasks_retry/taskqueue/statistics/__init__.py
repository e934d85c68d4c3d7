"""Statistics: how attempts ended, how queues stand, which failures are alike; at a cost that is bounded."""
