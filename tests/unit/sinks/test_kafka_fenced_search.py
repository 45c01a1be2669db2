"""A producer that is fenced off while the refused messages are searched for."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from walrelay.errors import Retryable
from walrelay.model import Message, System
from walrelay.sinks.kafka import transactional_producer, transactions
from walrelay.sinks.kafka.batching import BatchingHistory
from walrelay.sinks.kafka.settings import KafkaSettings


class RefusingProducer:
    """Refuses every message; once it is fenced off, polling it says so."""

    def __init__(self) -> None:
        self.failure: Exception | None = None
        self._reports: list[Callable[..., None]] = []

    def __len__(self) -> int:
        return len(self._reports)

    def begin_transaction(self) -> None: ...

    def abort_transaction(self, timeout: float) -> None: ...

    def produce(
        self, topic: str, value: bytes, key: bytes, partition: int, report: Callable[..., None], *rest: object
    ) -> None:
        self._reports.append(report)

    def poll(self, timeout: float) -> int:
        if self.failure is not None:
            raise self.failure
        reports, self._reports = self._reports, []
        for report in reports:
            report(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), None)
        return len(reports)

    def purge(self, **_: bool) -> None:
        self._reports.clear()


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (KafkaException(KafkaError(KafkaError._FENCED, "fenced")), "another instance publishes for slot 'orders' now"),
        (SystemError("returned a result with an exception set"), "the Kafka transaction was aborted: "),
    ],
)
def test_a_producer_that_fails_while_refused_messages_are_searched_for_ends_the_run_to_be_tried_again(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, said: str
) -> None:
    producer = RefusingProducer()
    monkeypatch.setattr(transactional_producer, "producer", lambda *_, **__: producer)
    history = BatchingHistory()
    history.without_batches("topic", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
    settings = KafkaSettings.model_validate({"bootstrap_servers": "nowhere"})
    sink = transactions.KafkaTransactions(settings, System("1", 1), "orders", history)
    assert sink.publish(Message("topic", b"key", b"value", [], 0), 1)
    for _ in range(3):
        assert list(sink.receipts(0.0)) == []
    producer.failure = failure
    with pytest.raises(Retryable, match=said):
        sink.receipts(0.0)
