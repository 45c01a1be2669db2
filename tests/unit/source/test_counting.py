"""In the middle of a transaction a position is good for settings that count its records as they were counted."""

import pytest

from walrelay.errors import Fatal
from walrelay.lsn import LSN
from walrelay.model import Counting, Position, System
from walrelay.source.counting import refuse_another_count

THEN = Counting("pgoutput", "walrelay", "public.outbox", "walrelay")
POSITION = Position(System("7301", 1), "walrelay", LSN(16), LSN(32), 5, counted=THEN)


def test_settings_that_count_in_the_same_way_go_on() -> None:
    refuse_another_count(POSITION, THEN)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"plugin": "wal2json, format 2"}, "source.plugin: pgoutput, not wal2json, format 2"),
        ({"publication": "other"}, "source.publication: walrelay, not other"),
        ({"table": "public.events"}, "outbox.table: public.outbox, not public.events"),
        ({"prefix": None}, "outbox.messages.prefix: walrelay, not null"),
    ],
)
def test_each_setting_that_decides_what_counts_is_named_with_what_it_was(change: dict[str, str], said: str) -> None:
    with pytest.raises(Fatal) as caught:
        refuse_another_count(POSITION, THEN._replace(**change))
    assert f"at 0/20 is published up to before its record 5, which was counted with {said}:" in str(caught.value)
    assert "beyond 0/20" in caught.value.hint


def test_what_an_earlier_version_kept_goes_on_where_logical_messages_count_as_they_did_by_default() -> None:
    earlier = POSITION._replace(counted=None)
    refuse_another_count(earlier, THEN)
    with pytest.raises(Fatal, match=r"earlier version, for which outbox\.messages\.prefix was walrelay"):
        refuse_another_count(earlier, THEN._replace(prefix=None))
