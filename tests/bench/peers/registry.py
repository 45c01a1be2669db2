"""The peers, in the order of the report."""

from tests.bench.peers.conduit import Conduit
from tests.bench.peers.contract import Peer
from tests.bench.peers.debezium import DebeziumServer
from tests.bench.peers.faststream_outbox import FastStreamOutbox
from tests.bench.peers.go_pq_cdc_kafka import GoPqCdcKafka
from tests.bench.peers.pg_transactional_outbox import PgTransactionalOutbox
from tests.bench.peers.pgstream import Pgstream
from tests.bench.peers.wal_listener import WalListener
from tests.bench.peers.walrelay_peer import Walrelay


def peers() -> list[Peer]:
    """All of them."""
    return [
        Walrelay(),
        DebeziumServer(),
        GoPqCdcKafka(),
        Conduit(),
        Pgstream(),
        WalListener(),
        PgTransactionalOutbox(),
        FastStreamOutbox(),
    ]
