"""Who is there, in the server's locks; and what an instance does whose relays fail, or whose server is away."""

from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from threading import Thread
from typing import NamedTuple, Self

import pytest

from tests.seen import Seen
from tests.servers.database import Database
from tests.servers.waiting import wait_until
from walrelay.errors import Disconnected, Fatal
from walrelay.observe import GivingUp, Observer, StandingBy, TakingOver
from walrelay.postgres import candidates, connect
from walrelay.postgres.candidates import Candidacy, Look
from walrelay.postgres.locks import lock_key
from walrelay.relay import shares
from walrelay.relay.spread import Spread
from walrelay.source.leadership import lead
from walrelay.supervise import Stop

OVER = 30.0  # seconds: nothing here takes as long
SLOTS = {"a": "slot_a", "b": "slot_b", "c": "slot_c", "d": "slot_d"}


NOBODY = Look(frozenset(), led=False, awaited=False, claimed=False)


class Place(NamedTuple):
    dsn: str
    slot: str


def numbers(candidacy: Candidacy, slot: str = "one") -> set[int]:
    return {*candidacy.look([slot], [slot])[slot].candidates}


def test_who_is_there_is_seen_by_all_until_the_connection_ends(database: Database) -> None:
    with Candidacy(database.dsn, 1) as first:
        assert numbers(first) == {1}
        with Candidacy(database.dsn, 2**31 - 1) as second:
            assert numbers(second) == numbers(first) == {1, 2**31 - 1}
            assert second.look(["one", "another"], ["another"])["one"].candidates == {1}, "it does not want to any more"
            assert first.look(["another"], ["one"])["another"].candidates == {2**31 - 1}
        wait_until(lambda: numbers(first) == {1}, OVER, "its locks to go")


def test_whoever_connects_again_is_there_although_the_server_still_has_the_old_connection(database: Database) -> None:
    with Candidacy(database.dsn, 1) as other, ExitStack() as gone:
        before = gone.enter_context(Candidacy(database.dsn, 2))
        assert numbers(before) == {2}
        with Candidacy(database.dsn, 2) as after:
            assert numbers(after) == {2}
            gone.close()
            wait_until(lambda: len(database.execute("SELECT pid FROM pg_locks WHERE objid = 2")) == 1, OVER, "it to go")
            assert numbers(other) == {1, 2}


def test_a_lead_is_seen_and_who_waits_for_it(database: Database) -> None:
    key = lock_key("one")
    with Candidacy(database.dsn, 1) as candidacy, database.connect() as leader, database.connect() as waits:
        assert candidacy.look(["one"], [])["one"] == NOBODY
        leader.execute("SELECT pg_advisory_lock(%s)", [key])
        assert candidacy.look(["one", "another"], []) == {"one": NOBODY._replace(led=True), "another": NOBODY}
        waiting = Thread(target=waits.execute, args=["SELECT pg_advisory_lock(%s)", [key]])
        waiting.start()
        wait_until(
            lambda: candidacy.look(["one"], [])["one"] == NOBODY._replace(led=True, awaited=True),
            OVER,
            "the wait to be seen",
        )
        leader.execute("SELECT pg_advisory_unlock(%s)", [key])
        waiting.join(OVER)


def test_a_frozen_instance_is_no_candidate_any_more(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with Candidacy(database.dsn, 1) as awake:
        monkeypatch.setattr(candidates, "_ENDS_IF_FROZEN", candidates._ENDS_IF_FROZEN.replace("20s", "300ms"))
        with Candidacy(database.dsn, 2) as frozen:
            assert numbers(frozen) == {2}
            wait_until(lambda: numbers(awake) == {1}, OVER, "the server to give the other one up")
            with pytest.raises(Disconnected):
                frozen.look(["one"], ["one"])


def test_a_claim_is_seen_by_all_but_makes_no_candidate(database: Database) -> None:
    with Candidacy(database.dsn, 1) as first, Candidacy(database.dsn, 2**31 - 1) as second:
        first.look(["one", "another"], ["one"], ["one"])
        seen = second.look(["one", "another"], [])
        assert seen == {"one": NOBODY._replace(candidates=frozenset({1}), claimed=True), "another": NOBODY}
        second.look(["one", "another"], [], ["another"])
        seen = first.look(["one", "another"], ["one"])
        assert seen == {"one": NOBODY._replace(candidates=frozenset({1})), "another": NOBODY._replace(claimed=True)}


class Instance:
    """Relays that do nothing but lead; or, those of an instance that is `unfit`, what that does."""

    def __init__(self, dsn: str, unfit: Callable[[Stop], None] | None = None) -> None:
        self.stop, self.seen = Stop(), {name: Seen() for name in SLOTS}
        self._dsn, self._unfit = dsn, unfit
        self.begun, self.leads, self.ended = set[str](), set[str](), set[str]()
        self.granted = list[str]()  # each lead that it ever got
        self._spread = Spread({name: Place(dsn, slot) for name, slot in SLOTS.items()}, self.seen, self.stop)
        self._threads = [Thread(target=self._run, args=[name]) for name in SLOTS]

    def __enter__(self) -> Self:
        self._spread.__enter__()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self._threads:
            thread.join(OVER)
        self._spread.__exit__()
        assert not any(thread.is_alive() for thread in self._threads)

    def told(self, kind: type[StandingBy] | type[TakingOver] | type[GivingUp]) -> list[str]:
        """The relays of which it was told."""
        return sorted(name for name, seen in self.seen.items() for _ in seen.of(kind))

    def _run(self, name: str) -> None:
        try:
            self._spread.run(name, partial(self._relay, name))
        except Fatal:
            self.ended.add(name)

    def _relay(self, name: str, turn: Stop, observer: Observer) -> None:
        self.begun.add(name)
        if self._unfit:
            return self._unfit(turn)
        with closing(connect.replication(self._dsn)) as connection:
            if lead(connection, SLOTS[name], turn.is_set, lambda: None, lambda text: None):
                self.leads.add(name)
                self.granted.append(name)
                turn.wait()
                self.leads.discard(name)
        return None


def fails(turn: Stop) -> None:
    raise Fatal("its secret is missing")


def comes_to_nothing(turn: Stop) -> None:
    turn.wait()


def test_an_instance_that_joins_gets_its_share_and_gives_it_back_when_it_goes(database: Database) -> None:
    with Instance(database.dsn) as first:
        wait_until(lambda: len(first.leads) == 4, OVER, "one to lead all")
        assert first.told(StandingBy) == [], "where nobody else is there, the log says nothing of others"
        with Instance(database.dsn) as second:
            wait_until(lambda: (len(first.leads), len(second.leads)) == (2, 2), OVER, "each to lead its share")
            assert not first.leads & second.leads
            moved = sorted(second.leads)
            assert first.told(GivingUp) == moved
            assert second.told(StandingBy) == sorted(SLOTS)
            assert second.told(TakingOver) == moved
        wait_until(lambda: len(first.leads) == 4, OVER, "the first to lead all again")
        assert first.told(TakingOver) == moved


def test_what_ended_in_an_error_is_taken_by_another_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "GRACE", 1000.0)
    with Instance(database.dsn, fails) as first:
        wait_until(lambda: first.ended == {*SLOTS}, OVER, "all to end")
        with Instance(database.dsn) as second:
            wait_until(lambda: len(second.leads) == 4, OVER, "the second to lead all")


def test_for_an_instance_that_does_not_come_to_lead_another_stands_in(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "GRACE", 0.5)
    with Instance(database.dsn, comes_to_nothing) as first:
        wait_until(lambda: first.begun == {*SLOTS}, OVER, "it to try")
        with Instance(database.dsn) as second:
            wait_until(lambda: len(second.leads) == 4, OVER, "the second to lead all")
            told = [each.why for seen in second.seen.values() for each in seen.of(TakingOver)]
            assert sum(why.startswith("nobody has led it for") for why in told) == 2
            assert second.told(GivingUp) == []


def test_leads_outlive_the_connections_on_which_instances_see_each_other(database: Database) -> None:
    with Instance(database.dsn) as first, Instance(database.dsn) as second:
        wait_until(lambda: (len(first.leads), len(second.leads)) == (2, 2), OVER, "each to lead its share")
        granted = [*first.granted], [*second.granted]
        seers = "(SELECT DISTINCT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ShareLock') l"
        lost = database.execute(f"SELECT pid, pg_terminate_backend(pid) FROM {seers}")
        assert len(lost) == 2
        old = [pid for pid, _ in lost]
        again = f"SELECT pid FROM {seers} WHERE pid <> ALL(%s)"
        wait_until(lambda: len(database.execute(again, [old])) == 2, OVER, "both to see each other again")
        with Candidacy(database.dsn, 1) as witness:
            wait_until(
                lambda: all(not witness.look([slot], [])[slot].awaited for slot in SLOTS.values()), OVER, "peace"
            )
        assert (first.granted, second.granted) == granted, "no lead moved"


def test_where_there_is_no_server_all_relays_are_begun_to_say_so() -> None:
    with Instance("host=127.0.0.1 port=1 dbname=nowhere", comes_to_nothing) as alone:
        wait_until(lambda: alone.begun == {*SLOTS}, OVER, "all to be begun")
        (notice,) = [text for seen in alone.seen.values() for text in seen.notices]
        assert notice.startswith(
            "which instances are there cannot be seen, so all relays are begun here: no connection"
        )
