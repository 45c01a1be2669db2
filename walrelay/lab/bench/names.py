"""What the benchmark calls its own on somebody's servers."""

SCHEMA = "walrelay_bench"
TABLE = f"{SCHEMA}.outbox"
BUSINESS = f"{SCHEMA}.orders"
SLOT = PUBLICATION = "walrelay_bench"
ROLE = "walrelay_bench_worker"  # on a server of its own only
TOPIC = "walrelay.bench.order"  # as the relay's settings make it of the aggregate type
POSITIONS = "walrelay.bench.positions"  # compacted; made by the relay itself
CHANNEL = "walrelay_bench"  # notified when rows were committed, while a listening worker is measured
