"""A failover lab: three hosts with Patroni, etcd and PostgreSQL, three hosts with workers, and faults.

python -m tests.lab [fault ...] [--replication async|sync]

The hosts are network namespaces on one bridge, inside namespaces of the run's own: all of it ends with the run, however
it ends. Needs Linux and root; the programs come from Debian and PyPI and are kept in a folder.
"""
