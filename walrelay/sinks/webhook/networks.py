"""Which addresses a webhook may go to: a name is looked up by somebody else's server, and may lead inside."""

from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_TRANSLATED = IPv6Network("64:ff9b::/96")  # the last 32 bits are an IPv4 address, by RFC 6052
_COMPATIBLE = IPv6Network("::/96")
_LOCALLY_TRANSLATED = IPv6Network("64:ff9b:1::/48")  # wherever the network's own gateway says, by RFC 8215


class PrivateAddress(OSError):
    """The text says which address it is; nothing was sent there."""


def is_public(address: str) -> bool:
    """Whether the address is on the internet, and not this machine, its network, or its provider's metadata. ValueError
    for what is no address.
    """
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv4Address):
        return parsed.is_global and not parsed.is_multicast
    if parsed.ipv4_mapped is not None:
        return is_public(str(parsed.ipv4_mapped))
    if parsed.is_multicast or parsed.is_site_local or parsed in _LOCALLY_TRANSLATED:
        return False
    return parsed.is_global and all(is_public(str(each)) for each in _inside(parsed))


def _inside(address: IPv6Address) -> list[IPv4Address]:
    """The IPv4 addresses that a gateway would take it to."""
    found = [address.sixtofour, *(address.teredo or ())]
    if address in _TRANSLATED or address in _COMPATIBLE:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [each for each in found if each is not None]


def is_private_host(host: str) -> bool:
    """Whether the name says so itself. Of any other name only the addresses tell that it leads to."""
    try:
        return not is_public(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
