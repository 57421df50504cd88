"""Public IP address ranges. Pure.

The lists follow IANA's special-purpose address registries. Python's `is_global` differs between versions, and omits the
metadata addresses of cloud providers.
"""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

IPAddress = IPv4Address | IPv6Address

_REFUSED_V4 = [
    IPv4Network(network)
    for network in (
        "0.0.0.0/8",  # this host
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # shared by carriers; some clouds' metadata
        "127.0.0.0/8",  # loopback
        "168.63.129.16/32",  # Azure's platform services, on an address that looks public
        "169.254.0.0/16",  # link-local; most clouds' metadata
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments; Oracle's metadata
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
]
# Everything else (loopback, mapped and compatible IPv4, unique local, link-local, multicast, …) is refused.
_UNICAST_V6 = IPv6Network("2000::/3")
_REFUSED_V6 = [
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo and other tunnels among them
        "2001:db8::/32",  # documentation
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "3ffe::/16",  # the former test network
        "3fff::/20",  # documentation
    )
]
# NAT64 (RFC 6052): as public as the IPv4 address in the last four bytes.
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: IPAddress) -> bool:
    """Return whether the address is reachable from the public internet."""
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _REFUSED_V4)
    if address.scope_id is not None:
        return False
    if address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _UNICAST_V6 and not any(address in network for network in _REFUSED_V6)
