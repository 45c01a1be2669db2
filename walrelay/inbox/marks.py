"""A high-water mark: one row for each consumer and partition instead of one for each message.

A relay publishes in commit order, and Kafka keeps the order of a partition. So a consumer that handles a partition's
messages one after the other has received everything up to the highest position (commit LSN and ordinal) that it has
received, and a message at or below it is a repetition. The invariant: **what was never received is never judged seen.**
Where the order does not hold, the position does not decide, and the message gets a row by its id:

- `replayed`: the message comes late on purpose, behind higher positions;
- rows that a backfill or a recovery read from the table: the same row comes again at another position;
- no position, or no source: RabbitMQ, JetStream and Redis groups deliver again out of order what was not acknowledged.

A server that was promoted without its last transactions, restored, or replaced by another one writes new events at
positions that were there before. They differ in time: a repetition has the commit time that it had, which is at most
the latest received; an event of the new history was committed after that. So the mark keeps the latest time as well,
and only what is neither higher nor later is a repetition. Clocks of two servers may differ by less than it took to
replace one by the other. A topic whose timestamps are the broker's has no commit times: there the id decides.

Not visible from here, and for the application to avoid (docs/inbox.md): two relays that feed one topic, messages of a
partition that are handled at the same time or skipped, and another number of partitions or another routing while a
relay that was killed has not repeated its last messages.
"""

from collections.abc import Mapping

from walrelay.connections import Parameter
from walrelay.inbox.identity import Identity


def decides(identity: Identity) -> bool:
    """Whether position and time can identify a repetition."""
    if identity.position is None or identity.source is None or identity.committed_at is None:
        return False
    return not identity.replayed and not identity.position.of_a_row


def statement(table: str, marks: str) -> str:
    """Raises the mark and returns a row if the message is new. Waits for a transaction that handles the same partition.

    A message with a row by its id came as `replayed` before, or before the consumer used positions.
    """
    return (
        f"INSERT INTO {marks} AS mark (consumer, source, commit_lsn, ordinal, committed_at)"
        " SELECT CAST(:consumer AS text), CAST(:source AS text), CAST(CAST(:lsn AS text) AS pg_lsn),"
        " CAST(:ordinal AS int), CAST(:committed AS timestamptz)"
        f" WHERE NOT EXISTS (SELECT FROM {table} WHERE consumer OPERATOR(pg_catalog.=) CAST(:consumer AS text)"
        " AND message_id OPERATOR(pg_catalog.=) CAST(:id AS text))"
        " ON CONFLICT (consumer, source) DO UPDATE SET commit_lsn = excluded.commit_lsn, ordinal = excluded.ordinal,"
        " committed_at = greatest(mark.committed_at, excluded.committed_at)"
        " WHERE (excluded.commit_lsn, excluded.ordinal) OPERATOR(pg_catalog.>) (mark.commit_lsn, mark.ordinal)"
        " OR excluded.committed_at OPERATOR(pg_catalog.>) mark.committed_at RETURNING 1"
    )


def parameters(consumer: str, identity: Identity) -> Mapping[str, Parameter]:
    assert identity.position is not None
    return {
        "consumer": consumer,
        "source": identity.source,
        "lsn": identity.position.commit_lsn,
        "ordinal": identity.position.ordinal,
        "committed": identity.committed_at,
        "id": identity.id,
    }
