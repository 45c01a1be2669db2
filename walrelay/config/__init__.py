"""The settings file: read and checked as a whole. `config.documentation` describes it."""

from walrelay.config.contact import Contacts, load_contacts
from walrelay.config.models import Settings
from walrelay.config.reading import Databases, load, load_databases, load_relays, parse

__all__ = ["Contacts", "Databases", "Settings", "load", "load_contacts", "load_databases", "load_relays", "parse"]
