"""The network address of a client. A forwarded address is used only if a trusted proxy added it."""

from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

UNKNOWN = "0.0.0.0"  # noqa: S104 - a placeholder that every address column accepts, not a place to listen


def of_request(request: HttpRequest) -> str:
    """Return the address of the client.

    Reads X-Forwarded-For from the right, past each proxy in KOMAND_TRUSTED_PROXIES (networks, or `unix` for a proxy on
    a local socket). Entries further left could be forged by the client and are ignored.
    """
    address = request.META.get("REMOTE_ADDR") or "unix"
    hops = [hop.strip() for hop in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if hop.strip()]
    while hops and _is_trusted(address):
        address = hops.pop()
    return address if _is_address(address) else UNKNOWN


def network_of(address: str) -> str:
    """Return the key by which one client is counted: an IPv4 address, or the /64 network of an IPv6 one."""
    parsed = ip_address(address)
    if not isinstance(parsed, IPv6Address):
        return str(parsed)
    return str(parsed.ipv4_mapped or ip_network((parsed, 64), strict=False))


def counted(address: str) -> str:
    """Return the address that stands for `network_of`: of an IPv6 client, the first of its /64 network."""
    return network_of(address).partition("/")[0]


def counted_of_request(request: HttpRequest) -> str:
    """Return the address by which the lockout counts failed logins."""
    return counted(of_request(request))


def neighbourhood_of(address: str) -> str:
    """Return the network that one attacker may have: the /24 of an IPv4 address, the /48 of an IPv6 one."""
    parsed = ip_address(address)
    parsed = (parsed.ipv4_mapped or parsed) if isinstance(parsed, IPv6Address) else parsed
    return str(ip_network((parsed, 48 if isinstance(parsed, IPv6Address) else 24), strict=False))


def _is_trusted(address: str) -> bool:
    if not _is_address(address):
        return address in settings.KOMAND_TRUSTED_PROXIES
    proxies = [proxy for proxy in settings.KOMAND_TRUSTED_PROXIES if proxy != "unix"]
    return any(ip_address(address) in ip_network(proxy, strict=False) for proxy in proxies)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
