"""Which texts are topics that messages may go to."""

import re

_PREFIX = "persistent://"
_WORD = re.compile(r"[-=:.\w]+", re.ASCII)  # of tenants and namespaces
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PARTITION = re.compile(r"-partition-\d+$")


def address_fault(text: str) -> str:
    """Why no message may go to a topic of that whole name; empty if it may."""
    if not text.startswith(_PREFIX):
        return f"it does not begin with {_PREFIX}"
    parts = text.removeprefix(_PREFIX).split("/")
    if len(parts) != 3:
        return "it has not tenant, namespace and name: persistent://TENANT/NAMESPACE/NAME"
    tenant, namespace, name = parts
    if not _WORD.fullmatch(tenant) or not _WORD.fullmatch(namespace):
        return "tenants and namespaces have ASCII letters, digits, '-', '_', '=', ':' and '.'"
    if tenant == "pulsar":
        return "the tenant 'pulsar' is Pulsar's own"
    return name_fault(name)


def name_fault(name: str) -> str:
    """The same for the name alone."""
    if not name:
        return "its name is empty"
    if "/" in name or _CONTROL.search(name):
        return "its name has no slashes and no control characters"
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in name):
        return "its name is not UTF-8"
    if name.startswith("__"):
        return "names that begin with '__' are Pulsar's own"
    if _PARTITION.search(name):
        return "a name that ends so is a partition of another topic"
    return ""


def topic_fault(name: str) -> str:
    """A topic is the name of one of Pulsar's, or the whole name."""
    return address_fault(name) if "://" in name else name_fault(name.rpartition("/")[2])
