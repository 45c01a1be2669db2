"""What a command needs of the settings file that talks to relays through their databases: DSN, slot and time to stop.

Nothing else is read: a broker's secret that is not set here, a sink whose package is not installed, or a broken rule
keeps nobody from pausing a relay.
"""

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from walrelay.config import databases, document, several
from walrelay.config.document import Document, Problem
from walrelay.config.models import Settings
from walrelay.config.reading import chosen_names, refuse, resolved, text_of, validated
from walrelay.config.source import SourceSettings
from walrelay.config.values import ConnectionString, Section, SlotName
from walrelay.errors import SettingsError
from walrelay.wiring import RelayContact

_SOURCE = "dsn", "slot"


class _Source(Section):
    dsn: ConnectionString
    slot: SlotName = SourceSettings.model_fields["slot"].default


class _Contact(Section):
    source: _Source
    shutdown_timeout: float = Settings.model_fields["shutdown_timeout"].default


class Contacts(NamedTuple):
    """The relays that can be talked to, by name, and why others cannot. A file of one relay has the name ""."""

    usable: Mapping[str, RelayContact]
    unusable: Mapping[str, SettingsError]

    def one(self, name: str) -> RelayContact:
        """SettingsError where that one cannot be talked to."""
        if name in self.unusable:
            raise self.unusable[name]
        return self.usable[name]


def load_contacts(path: Path, wanted: Collection[str] = ()) -> Contacts:
    """Those of all relays in that file, or of the `wanted`; SettingsError if the file cannot be read, or has none of
    that name.
    """
    written, name, env = document.read(text_of(path)), str(path), os.environ
    refuse([each for each in written.problems if not each.path], name)
    if not several.has_several(written):
        if any(wanted):
            raise SettingsError(f"{name}: has one relay, without a name", hint="Leave --relay out.")
        parts: dict[str, Document] = {"": written}
    elif several.has_databases(written):
        dsns = _found(written, name, env) if databases.has_query(written) else None
        made, wrong = several.database_parts(written, dsns)
        parts = {each: part.document for each, part in made.items()}
        refuse([] if parts else wrong, name)
    else:
        made, wrong = several.parts(written)
        parts = {each: part.document for each, part in made.items()}
        refuse([] if parts else wrong, name)
    usable, unusable = dict[str, RelayContact](), dict[str, SettingsError]()
    for each in chosen_names(parts, wanted, name):
        try:
            usable[each] = _contact(parts[each], name, env)
        except SettingsError as error:
            unusable[each] = error
    return Contacts(usable, unusable)


def _found(written: Document, name: str, env: Mapping[str, str]) -> Mapping[str, databases.Dsn]:
    query, wrong = validated(
        resolved(written.below(several.DATABASES), env, databases.DatabaseQuery), databases.DatabaseQuery
    )
    refuse([each._replace(path=(several.DATABASES, *each.path)) for each in wrong], name)
    assert query is not None
    return databases.ask(query).dsns


def _contact(written: Document, name: str, env: Mapping[str, str]) -> RelayContact:
    contact, wrong = validated(resolved(_reduced(written), env, _Contact), _Contact)
    refuse(wrong, name)
    assert contact is not None
    return RelayContact(contact.source.dsn.get_secret_value(), contact.source.slot, contact.shutdown_timeout)


def _reduced(written: Document) -> Document:
    value = written.value if isinstance(written.value, dict) else {}
    kept = {key: value[key] for key in ("source", "shutdown_timeout") if key in value}
    if isinstance(kept.get("source"), dict):
        kept["source"] = {key: kept["source"][key] for key in _SOURCE if key in kept["source"]}
    problems = [each for each in written.problems if _concerns(each)]
    return Document(kept, written.lines, problems)


def _concerns(problem: Problem) -> bool:
    return problem.path[:1] == ("source",) or problem.path == ("shutdown_timeout",)
