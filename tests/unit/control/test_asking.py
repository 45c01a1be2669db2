"""Answers of processes of other versions."""

import json

from walrelay.control.asking import activity_of


def test_another_version_may_say_more_or_less() -> None:
    more = {"p50": 1.0, "p99": 2.0, "p999": 3.0}
    told = {
        "slot": "orders",
        "latency": more,
        "stalled": {"by": "sink", "since": 1.0, "why": "away", "hint": "look"},
        "rules": [{"rule": "noise", "dropped": 1, "since": 2}],
        "topics": [{"sink": "", "topic": "t", "messages": 1, "bytes": 2, "errors": 0}],
        "shards": 7,
    }
    found = activity_of(json.loads(json.dumps(told)))
    assert (found.slot, found.latency, found.topics) == ("orders", (1.0, 2.0), [("", "t", 1, 2)])
    assert found.transaction_rows is None
