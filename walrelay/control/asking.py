"""What the processes that lead know of their relays: live numbers, and the last events. One question for all relays of
a database.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from time import monotonic
from typing import Any, NamedTuple

from walrelay.control.questions import ANSWERS, QUESTIONS, Question
from walrelay.control.state import facts_of, relay_state
from walrelay.control.table import ACTIVITY, relay_row
from walrelay.errors import Fatal
from walrelay.postgres.candidates import instances
from walrelay.postgres.catalog import Catalog
from walrelay.postgres.notifications import Bell, Flooded, Notifications
from walrelay.postgres.retained import slot_wal

PATIENCE = 2.0  # seconds

_SLOTS = "SELECT slot_name::text FROM pg_replication_slots WHERE database = current_database()"


class Percentiles(NamedTuple):
    """What half of the values are at most, and what 99 of 100 are."""

    p50: float
    p99: float


class Stall(NamedTuple):
    """Who keeps the relay from going on, since when (Unix time), and why."""

    by: str
    since: float
    why: str


class RuleCount(NamedTuple):
    """How many records a rule dropped."""

    rule: str
    dropped: int


class TopicCount(NamedTuple):
    """What a topic was sent; `sink` empty where the relay has one, without a name."""

    sink: str
    topic: str
    messages: int
    bytes: int


class RelayActivity(NamedTuple):
    """A relay, as its process sees it at `at`. Counters since the process began it, `since`; times are Unix's.

    `published_bytes` and `topics` are of what was handed to the sinks, and may be estimated while much is. `latency`,
    from commit to receipt: of the last minute; None: nothing was published. `transaction_rows`: of the last ones.
    `last_event`: the number of the latest event; `kept`: how many there are to ask for.
    """

    slot: str
    instance: str
    at: float
    since: float
    state: str
    records: int
    published: int
    published_bytes: int
    confirmed_lsn: str | None
    in_flight: int
    back_pressure_seconds: float
    registry_wait_seconds: float
    retries: int
    dead_lettered: int
    dropped: int
    skipped: int
    latency: Percentiles | None
    stalled: Stall | None
    last_error: str | None
    last_error_at: float | None
    rules: Sequence[RuleCount]
    topics: Sequence[TopicCount]
    transaction_rows: Percentiles | None
    kept: int
    last_event: int


class RecentEvent(NamedTuple):
    """An event that was handed to its sink at `at`. `number`: counted by the process, from 1. Times are Unix's; None:
    not yet, or not known. `payload`: only where the settings ask for it.
    """

    number: int
    at: float
    id: str | None
    type: str | None
    topic: str
    sink: str
    key: str | None
    position: str | None
    commit_lsn: str
    committed_at: float
    read_at: float
    published_at: float
    acknowledged_at: float | None
    confirmed_at: float | None
    bytes: int
    payload: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Times as ISO 8601 has them."""
        return {name: _iso(value) if name in _TIMES else value for name, value in self._asdict().items()}


_TIMES = {"at", "committed_at", "read_at", "published_at", "acknowledged_at", "confirmed_at"}


def _iso(time: float | None) -> str | None:
    return None if time is None else datetime.fromtimestamp(time, UTC).isoformat(timespec="microseconds")


class Rates(NamedTuple):
    """What a relay does in a second."""

    published: float
    bytes: float


def rates(before: RelayActivity | None, now: RelayActivity | None) -> Rates | None:
    """Between two answers; None where they are not of one process, or of one moment."""
    if before is None or now is None or (before.instance, before.since) != (now.instance, now.since):
        return None
    seconds = now.at - before.at
    if seconds <= 0:
        return None
    of_bytes = now.published_bytes - before.published_bytes
    return Rates((now.published - before.published) / seconds, of_bytes / seconds)


class RecentEvents(NamedTuple):
    """The newest first."""

    activity: RelayActivity
    events: Sequence[RecentEvent]


class EventFilter(NamedTuple):
    """Which events; an empty text: any. `topic`: `*` matches any characters."""

    topic: str = ""
    id: str = ""
    key: str = ""

    def matches(self, event: RecentEvent) -> bool:
        return (
            (not self.topic or fnmatchcase(event.topic, self.topic))
            and (not self.id or event.id == self.id)
            and (not self.key or event.key == self.key)
        )


_ANY = EventFilter()


def activity(
    catalog: Catalog, slots: Sequence[str] | None = None, patience: float = PATIENCE
) -> dict[str, RelayActivity]:
    """By slot: those that answer within `patience` seconds. None: all relays of the database. Without a leader there is
    nobody to answer, and such a relay is not waited for. Fatal where no relay could answer.
    """
    if slots is None:
        slots = [row[0] for row in catalog.rows(_SLOTS)]
    answers = _asked(catalog, slots, Question(), patience)
    return {slot: activity_of(members) for slot, members in answers.items()}


def relay_activity(catalog: Catalog, slot: str, patience: float = PATIENCE) -> RelayActivity:
    """Fatal where nobody answers."""
    return activity_of(_answer(catalog, Question(slot), patience))


def recent_events(
    catalog: Catalog, slot: str, after: int = 0, wanted: EventFilter = _ANY, patience: float = PATIENCE
) -> RecentEvents:
    """The events with later numbers than `after`: numbers of the same process. Fatal where nobody answers."""
    members = _answer(catalog, Question(slot, after), patience)
    found = [RecentEvent(**_known(RecentEvent, each)) for each in members.get("events", ())]
    later = [each for each in found if each.number > after]
    return RecentEvents(activity_of(members), [each for each in later if wanted.matches(each)])


def _answer(catalog: Catalog, question: Question, patience: float) -> Mapping[str, Any]:
    slot = question.slot
    found = _asked(catalog, [slot], question, patience)
    if slot in found:
        return found[slot]
    if not _led(catalog, [slot]):
        catalog.slot(slot)  # Fatal for one of another database
        wal = slot_wal(catalog, [slot]).get(slot)
        state = relay_state(facts_of(relay_row(catalog, slot, slot), wal, led=False))
        said = f"no instance leads the relay of slot {slot!r}, so there is nobody to ask"
        if state.state == "retrying":
            hint = "It runs, and tries again by itself: `walrelay doctor` says what is missing."
            raise Fatal(f"{said}: {state.why}", hint=hint)
        raise Fatal(said, hint="Start one: `walrelay run`. `walrelay relays` shows its last error, if it had one.")
    raise Fatal(
        f"the instance that leads the relay of slot {slot!r} did not answer within {patience:g} s",
        hint="Ask again. If it never answers: it may be of an earlier version, or its role lacks rights to"
        f" {ACTIVITY}, which its log and `walrelay doctor` say.",
        page="others",
    )


def _asked(catalog: Catalog, slots: Sequence[str], question: Question, patience: float) -> dict[str, dict[str, Any]]:
    """The answers, by slot."""
    until = monotonic() + patience
    asked_at = _refuse(catalog)
    leading = _led(catalog, slots)
    if not leading:
        return {}
    awaited = set(leading)

    def heard(channel: str, text: str) -> bool:
        awaited.difference_update(text.split())
        return not awaited

    notifications = Notifications(catalog, [ANSWERS], Bell(), heard)
    try:
        catalog.rows("SELECT pg_notify(%s, %s)", QUESTIONS, str(question))
        with suppress(Flooded):  # what is written by now is read
            while awaited and (left := until - monotonic()) > 0:
                notifications.wait(left)
    finally:
        notifications.end([ANSWERS])
    rows = catalog.rows(
        f"SELECT slot_name, activity::text FROM {ACTIVITY}"
        " WHERE slot_name = ANY (%s) AND written_at >= %s::timestamptz",
        [*leading],
        asked_at,
    )
    return {slot: json.loads(text) for slot, text in rows}


def _led(catalog: Catalog, slots: Sequence[str]) -> set[str]:
    return {slot for slot, there in instances(catalog, slots).items() if there.led}


def _refuse(catalog: Catalog) -> str:
    """Fatal where no relay could answer; the time on the server."""
    question = f"SELECT clock_timestamp()::text, pg_is_in_recovery(), to_regclass('{ACTIVITY}') IS NOT NULL"
    ((now, standby, there),) = catalog.rows(question)
    if standby:
        raise Fatal(
            "the server is a standby: relays are asked by way of the primary",
            hint="Name the primary in source.dsn, or several hosts with target_session_attrs=primary.",
        )
    if not there:
        raise Fatal(
            f"there is no table {ACTIVITY}, by which relays are asked",
            hint="`walrelay init` makes it; existing objects stay as they are, and running relays use it at once.",
        )
    return str(now)


def activity_of(members: Mapping[str, Any]) -> RelayActivity:
    known = _known(RelayActivity, members)
    for name in ("latency", "transaction_rows"):
        known[name] = known[name] and Percentiles(**_known(Percentiles, known[name]))
    known["stalled"] = known["stalled"] and Stall(**_known(Stall, known["stalled"]))
    known["rules"] = [RuleCount(**_known(RuleCount, each)) for each in known["rules"] or ()]
    known["topics"] = [TopicCount(**_known(TopicCount, each)) for each in known["topics"] or ()]
    return RelayActivity(**known)


def _known(kind: Any, members: Mapping[str, Any]) -> dict[str, Any]:
    """Another version may say less, or more."""
    return {name: members.get(name) for name in kind._fields}
