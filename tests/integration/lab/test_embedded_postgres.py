"""The PostgreSQL that a benchmark brings: who can reach it, and how."""

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from walrelay.lab.servers.backstage import Interruption, opened
from walrelay.lab.servers.postgres import EmbeddedPostgres


def test_over_tcp_it_asks_for_the_password() -> None:
    with Interruption() as interruption, opened(interruption) as (backstage, _):
        dsn = EmbeddedPostgres(backstage, tcp=True).ready()
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT host(inet_server_addr())").fetchone() == ("127.0.0.1",)
        assert conninfo_to_dict(dsn)["password"]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(dsn, password="guessed")


def test_otherwise_only_its_socket_leads_to_it() -> None:
    with Interruption() as interruption, opened(interruption) as (backstage, _):
        dsn = EmbeddedPostgres(backstage).ready()
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT inet_server_addr()").fetchone() == (None,)
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
