"""What librdkafka counts of itself: its queue, its brokers, what it sent again.

It makes the text in a thread of its own, and the relay's thread only keeps it: whoever asks for the numbers reads it.
"""

import json
from collections import Counter, deque
from collections.abc import Mapping
from threading import Lock
from time import monotonic
from typing import Any

from walrelay.publish.contract import Labelled

INTERVAL_MS = 5_000
_OLD = 3 * INTERVAL_MS / 1000  # seconds after which a client counts as gone
_CLIENTS = 32  # of the latest runs, whose counts are not folded yet
_BROKERS = 100
_QUANTILES = {"p50": "0.5", "p99": "0.99"}


class _Text:
    """The latest of one client."""

    def __init__(self) -> None:
        self.text, self.at = "", 0.0

    def __call__(self, text: str) -> None:
        self.text, self.at = text, monotonic()


class ClientStatistics:
    """Of all producers that a relay's runs have had; what they counted adds up."""

    def __init__(self) -> None:
        self._texts, self._before, self._lock = deque[_Text](), Counter[str](), Lock()

    def options(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """A new client's, in addition to those that it has. Where an operator wants statistics for somebody else, these
        are not had.
        """
        if "statistics.interval.ms" in given or "stats_cb" in given:
            return {}
        text = _Text()
        with self._lock:
            self._texts.append(text)
            if len(self._texts) > _CLIENTS:
                self._before += _counts(_read(self._texts.popleft()))
        return {"statistics.interval.ms": INTERVAL_MS, "stats_cb": text}

    def numbers(self) -> Mapping[str, Labelled]:
        """By the name of the metric and the values of its labels; empty until a client has told some."""
        with self._lock:
            texts, counts = [*self._texts], Counter(self._before)
        queue, brokers, told = Counter[str](), dict[str, dict[str, Any]](), bool(counts)
        for each in texts:
            read = _read(each)
            told |= bool(read)
            counts += _counts(read)
            if read and monotonic() - each.at <= _OLD:
                queue.update(messages=read.get("msg_cnt", 0), bytes=read.get("msg_size", 0))
                brokers |= _brokers(read)
        if not told:
            return {}
        return {
            "walrelay_kafka_queue_messages": {(): queue["messages"]},
            "walrelay_kafka_queue_bytes": {(): queue["bytes"]},
            "walrelay_kafka_requests_total": {(): counts["tx"]},
            "walrelay_kafka_retries_total": {(): counts["txretries"]},
            "walrelay_kafka_timeouts_total": {(): counts["req_timeouts"]},
            "walrelay_kafka_disconnects_total": {(): counts["disconnects"]},
            "walrelay_kafka_broker_round_trip_seconds": _windows(brokers, "rtt", 1e6),
            "walrelay_kafka_broker_throttle_seconds": _windows(brokers, "throttle", 1e3),
        }


def _read(text: _Text) -> dict[str, Any]:
    return json.loads(text.text) if text.text else {}


def _counts(read: Mapping[str, Any]) -> Counter[str]:
    names, brokers = ("tx", "txretries", "req_timeouts", "disconnects"), read.get("brokers", {}).values()
    return Counter({name: sum(each.get(name, 0) for each in brokers) for name in names})


def _brokers(read: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Without those that have only an address: the client knows each of them a second time, by its number."""
    known = {name: each for name, each in read.get("brokers", {}).items() if each.get("nodeid", -1) >= 0}
    return {name: known[name] for name in sorted(known)[:_BROKERS]}


def _windows(brokers: Mapping[str, Mapping[str, Any]], name: str, unit: float) -> Labelled:
    return {
        (broker, quantile): each[name][member] / unit
        for broker, each in brokers.items()
        for member, quantile in _QUANTILES.items()
        if each.get(name, {}).get("cnt")
    }
