"""How fast the queue is here and now, against hand-written SQL and, when asked, against its neighbours.

Rates move with the machine: compare those of one run. Seconds of CPU and bytes of WAL per task are steadier.
"""
