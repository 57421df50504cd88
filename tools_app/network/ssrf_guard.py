"""Keeps requests that a model or a stranger had us make away from every address that is not public.

A URL is checked before anything is sent; its name is resolved once, all answers must be public, and the connection
goes to an address that was checked. Every outgoing request to a URL that we did not choose goes through here.
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
# A last label like this makes many resolvers read the whole name as a number of an IPv4 address.
_NUMERIC_LABEL = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)")
_LOCAL_SUFFIXES = (".localhost", ".local", ".localdomain", ".internal", ".intranet", ".lan", ".home.arpa", ".onion")


class RefusedTargetError(ToolError):
    """The URL leads where requests may not go. The message names the rule, never an address that was found."""


@dataclass(frozen=True)
class CheckedUrl:
    """A URL that may be requested. host: in lower case, without brackets, ASCII; port: also when the URL has none."""

    url: httpx2.URL
    host: str
    port: int


def check_url(text: str, *, allowed_private: Collection[str]) -> CheckedUrl:
    """The target of an http or https URL. Raises RefusedTargetError. Looks nothing up and sends nothing.

    allowed_private: `host:port` pairs, in lower case, for which no rule but the scheme and credentials holds.
    """
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
    host = url.raw_host.decode("ascii").lower().removesuffix(".")
    port = _PORTS[url.scheme] if url.port is None else url.port
    if _pair(host, port) not in allowed_private:
        _check_host(host)
        if port not in _PORTS.values():
            raise RefusedTargetError("Only the ports 80 and 443 can be reached.")
    return CheckedUrl(url.copy_with(host=host), host, port)


def resolve(host: str, port: int, *, seconds: float, allowed_private: Collection[str]) -> tuple[str, ...]:
    """The addresses of a host, looked up once, best first. Raises RefusedTargetError if a single one is not public,
    ToolError if there is none or the answer takes longer than `seconds`."""
    literal = _parse_address(host)
    addresses = [literal] if literal else _look_up(host, port, seconds)
    if _pair(host, port) not in allowed_private and not all(is_public(address) for address in addresses):
        raise RefusedTargetError(f"{host} does not lead to public addresses alone.")
    return tuple(dict.fromkeys(str(address) for address in addresses))


def _check_host(host: str) -> None:
    address = _parse_address(host)
    if address is not None:
        if not is_public(address):
            raise RefusedTargetError(f"{host} is not a public address.")
    elif _NUMERIC_LABEL.fullmatch(host.rpartition(".")[2]):
        raise RefusedTargetError(f"{host} is an unusual way to write an address. Use a name.")
    elif not _NAME.fullmatch(host):
        raise RefusedTargetError("The URL has no host name that can be public.")
    elif host.endswith(_LOCAL_SUFFIXES):
        raise RefusedTargetError(f"{host} is the name of something local.")


def _parse_address(host: str) -> IPAddress | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _pair(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _look_up(host: str, port: int, seconds: float) -> list[IPAddress]:
    """Asks the system's resolver in a thread that is left behind when it takes too long: it cannot be interrupted."""
    answers: SimpleQueue[list[IPAddress] | OSError | UnicodeError] = SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([ip_address(entry[4][0]) for entry in found])
        except (OSError, UnicodeError) as error:
            answers.put(error)

    Thread(target=ask, name="resolver", daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise ToolError(f"The name {host} could not be looked up within {seconds:.0f} seconds.") from None
    if isinstance(answer, Exception) or not answer:
        raise ToolError(f"The name {host} could not be found.")
    return answer
