"""A publication and a slot of pgoutput's, for peers that find theirs there."""

import psycopg

from tests.bench.peers.contract import Site


def publish(site: Site, publication: str, slot: str) -> None:
    """`publication`: the statement that makes it, which has to come before the slot."""
    with psycopg.connect(site.dsn, autocommit=True) as connection:
        connection.execute(publication.encode())
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [slot])
