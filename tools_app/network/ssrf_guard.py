"""Guards against server-side request forgery: keeps requests for models and third parties to public addresses.

A URL is checked before anything is sent. Its name is resolved once, all addresses must be public, and the connection
uses one of these. Every outgoing request to a URL that a model or a third party chose goes through this module.
"""

import re
import socket
from collections.abc import Collection
from dataclasses import dataclass
from ipaddress import ip_address
from queue import Empty, SimpleQueue
from threading import Thread

import httpx2

from tools_app.network.ip_ranges import IPAddress, is_public
from tools_app.types import ToolError

MAX_URL_CHARACTERS = 2_048
_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"(?=.{1,253}$)(?!-)[a-z0-9_-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9_-]{1,63}(?<!-))+")
# Many resolvers parse a name with such a last label as an IPv4 address.
_NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)")
_LOCAL_SUFFIXES = (".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home.arpa", ".onion")


class RefusedTargetError(ToolError):
    """The URL must not be requested. The message names the rule, never a resolved address."""


@dataclass(frozen=True)
class CheckedUrl:
    """A URL that may be requested.

    host: lower case, ASCII, without brackets.
    port: explicit or the default.
    """

    url: httpx2.URL
    host: str
    port: int


def check_url(text: str, *, allowed_private: Collection[str]) -> CheckedUrl:
    """Return the checked http or https URL. Raises RefusedTargetError. Resolves nothing and sends nothing.

    allowed_private: `host:port` pairs, in lower case, exempt from all rules but those about scheme and user name.
    """
    url = _parse(text)
    host = url.raw_host.decode("ascii").lower().removesuffix(".")
    port = _PORTS[url.scheme] if url.port is None else url.port
    if _pair(host, port) not in allowed_private:
        _check_host(host)
        if port not in _PORTS.values():
            raise RefusedTargetError("Only the ports 80 and 443 can be reached.")
    return CheckedUrl(url.copy_with(host=host), host, port)


def _parse(text: str) -> httpx2.URL:
    if len(text) > MAX_URL_CHARACTERS:
        raise RefusedTargetError(f"The URL is longer than {MAX_URL_CHARACTERS} characters.")
    if "\\" in text or any(character.isspace() for character in text.strip()):
        raise RefusedTargetError("The URL contains a backslash or a space.")
    try:
        url = httpx2.URL(text.strip())
    except httpx2.InvalidURL as error:
        raise RefusedTargetError(f"The URL is not valid: {error}.") from None
    if url.scheme not in _PORTS:
        raise RefusedTargetError("Only http and https URLs can be fetched.")
    if url.userinfo or "@" in url.netloc.decode("ascii"):
        raise RefusedTargetError("The URL must not contain a user name or a password.")
    return url


def resolve(host: str, port: int, *, seconds: float, allowed_private: Collection[str]) -> tuple[str, ...]:
    """Return the addresses of a host, resolved once, best first.

    Raises RefusedTargetError if any is not public, ToolError if there is none or the look-up exceeds `seconds`.
    """
    literal = _parse_address(host)
    addresses = [literal] if literal else _look_up(host, port, seconds)
    if _pair(host, port) not in allowed_private and not all(is_public(address) for address in addresses):
        raise RefusedTargetError(f"{host} does not resolve to public addresses only.")
    return tuple(dict.fromkeys(str(address) for address in addresses))


def _check_host(host: str) -> None:
    address = _parse_address(host)
    if address is not None:
        if not is_public(address):
            raise RefusedTargetError(f"{host} is not a public address.")
    elif _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        raise RefusedTargetError(f"{host} is an unusual notation of an address. Use a name.")
    elif not _NAME.fullmatch(host):
        raise RefusedTargetError("The URL has no public host name.")
    elif host.endswith(_LOCAL_SUFFIXES):
        raise RefusedTargetError(f"{host} is a local name.")


def _parse_address(host: str) -> IPAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _pair(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_Answer = list[IPAddress] | OSError | UnicodeError


def _ask_resolver(host: str, port: int) -> _Answer:
    try:
        return [ip_address(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError) as error:
        return error


def _look_up(host: str, port: int, seconds: float) -> list[IPAddress]:
    """Resolve in a thread, which is abandoned when it takes too long: getaddrinfo cannot be interrupted."""
    answers: SimpleQueue[_Answer] = SimpleQueue()
    Thread(target=lambda: answers.put(_ask_resolver(host, port)), name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise ToolError(f"The name {host} could not be looked up within {seconds:.0f} seconds.") from None
    if isinstance(answer, Exception) or not answer:
        raise ToolError(f"The name {host} could not be found.")
    return answer
