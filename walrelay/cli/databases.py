"""`walrelay run` where a query finds the databases: their relays come and go with them, in this process."""

from contextlib import ExitStack

from walrelay import compose
from walrelay.cli import ending
from walrelay.cli.ending import signalled
from walrelay.config import Databases
from walrelay.config.databases import Dsn
from walrelay.control.database import Controls
from walrelay.errors import Fatal, SettingsError
from walrelay.observe import EndedFatally, Happening, LeftAtOnce, Noticed, Observer, Observers, Streaming
from walrelay.observe.processes import DatabaseGone, NotStarted
from walrelay.relay.roster import Roster
from walrelay.relay.spread import Instance, Spread
from walrelay.supervise import Backoff, Retries, Stop, supervise
from walrelay.telemetry import logs
from walrelay.unforeseen import explained


def run(databases: Databases) -> int:
    """Returns the exit code when a signal has stopped all relays. Fatal if the query fails at the first look;
    SettingsError if the settings suit none of the databases.
    """
    logs.configure(databases.log.format, databases.log.level)
    with compose.monitored(databases, logs.LogObserver()) as watching, Controls() as controls:
        return _run(databases, watching, controls)


def _run(databases: Databases, watching: compose.Watching, controls: Controls) -> int:
    relays = _Relays(databases, watching, controls)
    stop = signalled(relays.leave_at_once)
    found = relays.first_look(stop)
    if stop.is_set():
        return ending.DONE
    _refuse_unless_one_suits(databases, found)
    roster = Roster(relays.look, relays.run, relays.told, relays.ended)
    done = roster.run(found, databases.look_interval, stop)
    return ending.DONE if done else ending.FAILED


def _refuse_unless_one_suits(databases: Databases, dsns: dict[str, Dsn]) -> None:
    """One row that is wrong keeps no other relay from running; a settings file that is wrong does."""
    error = SettingsError("the query of `databases` finds no database that can be used")
    for name, dsn in dsns.items():
        try:
            databases.settings(name, dsn)
        except SettingsError as fault:
            error = fault
        else:
            return
    raise error


class _Streamed:
    """Whether the relay ever streamed."""

    yet = False

    def saw(self, happening: Happening) -> None:
        self.yet |= isinstance(happening, Streaming)


class _Relays:
    def __init__(self, databases: Databases, watching: compose.Watching, controls: Controls) -> None:
        self._databases, self._instance, self._log = databases, Instance(), Observers(logs.LogObserver())
        self._watching, self._controls = watching, controls
        self._observers: dict[str, Observer] = {}
        self._faults = set[str]()

    def look(self) -> dict[str, Dsn]:
        found = self._databases.look()
        self._tell_faults({fault.text for fault in found.faults})
        return found.dsns

    def first_look(self, stop: Stop) -> dict[str, Dsn]:
        """What the first look finds that can be made; nothing if it is stopped before."""
        found = dict[str, Dsn]()
        supervise(
            run=lambda: found.update(self.look()),
            stop=stop.is_set,
            wait=stop.wait,
            observer=self._log,
            retries=Retries(lambda: None, self._log, Backoff()),
        )
        return found

    def _tell_faults(self, faults: set[str]) -> None:
        """Each once, as long as it is there."""
        for fault in sorted(faults - self._faults):
            self._log.saw(Noticed(fault))
        self._faults = faults

    def told(self, name: str, happening: Happening) -> None:
        """An observer of the relay hears of it even if the relay has ended."""
        observer = self._observers.get(name) or (logs.LogObserver(relay=name) if name else self._log)
        observer.saw(happening)
        if isinstance(happening, DatabaseGone):
            self._watching.forget(name)
            self._observers.pop(name, None)

    def ended(self, name: str, error: Exception, others: int) -> None:
        ending.show_traceback(error)
        known = explained(error)
        self.told(name, EndedFatally(known if isinstance(known, Fatal) else Fatal(str(known)), others))

    def run(self, name: str, dsn: Dsn, stop: Stop) -> None:
        """What keeps a relay from its first streaming may be done by the next look: `walrelay init` for a database that
        is new. An error after that is for good.
        """
        logs.name_relay(name)
        streamed = _Streamed()
        with ExitStack() as stack:
            self._run(name, dsn, stop, streamed, stack)

    def _run(self, name: str, dsn: Dsn, stop: Stop, streamed: _Streamed, stack: ExitStack) -> None:
        try:
            wiring = compose.wiring(self._databases.settings(name, dsn))
            watchers = self._watching.watch(name, wiring)
            control = self._controls.add(name, wiring, watchers)
            stack.callback(self._controls.remove, control)
            observer = Observers(
                logs.LogObserver(slot=wiring.slot, relay=name), streamed, *watchers, control, control.activity
            )
            self._observers[name] = observer
            with Spread({name: wiring}, {name: observer}, stop, self._instance) as spread:
                spread.run(name, lambda turn, told: compose.relay_until(turn, wiring, told, control=control))
        except Exception as error:
            if streamed.yet:
                raise
            ending.show_traceback(error)
            known = explained(error)
            cause = f"{known} (hint: {known.hint})" if known.hint else str(known)
            self.told(name, NotStarted(cause, self._databases.look_interval))

    def leave_at_once(self) -> None:
        for observer in [*self._observers.values()]:
            observer.saw(LeftAtOnce())
