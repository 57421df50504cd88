"""URLs and paths in the arguments of a call, normalized so that no other spelling evades a rule.

Reads nothing but what `follow` reads of symbolic links.
"""

import ipaddress
import posixpath
import re
import socket
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from audit_app.kernel.host_names import READ_DIFFERENTLY, punycode
from tools_app.types import TargetKind, ToolSpec

# Resolves symbolic links: the identity for checks of rules alone, `os.path.realpath` before a real call.
Follow = Callable[[str], str]

DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}
_UNPRINTABLE = re.compile(r"[\x00-\x20\x7f-\xa0]")
# Browsers also parse `http:example.com` as a URL with a host.
_SLASHLESS = re.compile(r"^(https?|wss?|ftp):[/\\]*", re.IGNORECASE)
_URL_LIKE = re.compile(rf"^[a-z][a-z0-9+.\-]*:[/\\]{{2}}|{_SLASHLESS.pattern}", re.IGNORECASE)
_AUTHORITY_END = re.compile(r"[/?#\0]")
_PLAIN_HOST = re.compile(r"[a-z0-9_.-]+|\[[0-9a-f:.]+\]")
_PLAIN_IN_PATHS = "/:@!$&'()*+,;=~"
_NUMBER_HOST = re.compile(r"^[0-9a-fx.]+$")
_ENCODED_STEP = re.compile(r"%(?:25)*(?:2e|2f|5c|00)", re.IGNORECASE)
_MOST_ENCODINGS = 5
# Arguments that hold addresses, also without a scheme, although their schema does not say so.
_ADDRESSES = frozenset({"url", "uri", "href", "link", "website"})
_CHOICES = ("anyOf", "oneOf", "allOf")
_NOWHERE = "/workspace"  # the folder of a policy without one


@dataclass(frozen=True)
class Url:
    """A normalized URL.

    host: lower case, ASCII, no final dot.
    port: None for the default.
    path: with the query.
    """

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def authority(self) -> str:
        return self.host if self.port is None else f"{self.host}:{self.port}"


def is_url_like(text: str) -> bool:
    """Return whether the text begins like a URL with a host, ignoring spaces and control characters."""
    return _URL_LIKE.match(_UNPRINTABLE.sub("", text[:200])) is not None


def read_url(text: str) -> Url | None:
    """Return the normalized URL, or None for anything else.

    Also None for what two parsers may read differently: a user name, a backslash, spaces and control characters.
    """
    if _UNPRINTABLE.search(text) or "\\" in text:
        return None
    try:
        parts = urlsplit(text)
        host, port = _host(parts.hostname or ""), parts.port
    except ValueError:
        return None
    if not parts.scheme or not host or "@" in parts.netloc:
        return None
    if port == DEFAULT_PORTS.get(parts.scheme):
        port = None
    path = _walked(quote(unquote(parts.path), safe=_PLAIN_IN_PATHS))
    return Url(parts.scheme, host, port, f"{path}?{parts.query}" if parts.query else path)


def read_address(text: str) -> Url | None:
    """Return the URL of an address, also of one without a scheme, such as `www.example.org`; None if it is none."""
    return read_url(text if is_url_like(text) else f"https://{text}")


@lru_cache(maxsize=32)  # each of an agent's rules asks about the same text
def suspect_urls(text: str) -> tuple[Url, ...]:
    """Return the URLs that lenient parsers could read from the text, for rules that deny."""
    plain = read_url(text)
    found = {} if plain is None else {plain: None}
    for cleaned in (_UNPRINTABLE.sub("", text), _UNPRINTABLE.split(text.strip(), maxsplit=1)[0]):
        for spelling in (cleaned, cleaned.replace("\\", "/")):
            scheme, rest = _parted(spelling)
            authority, slash, path = rest.partition("/")
            for host in _careless_hosts(authority):
                found |= dict.fromkeys(_careless_urls(scheme, host, f"{slash}{decoded(path)}"))
    return tuple(found)


def decoded(text: str) -> str:
    """Return the text without percent-encoding, at any number of layers up to five."""
    for _ in range(_MOST_ENCODINGS):
        plain = unquote(text)
        if plain == text:
            break
        text = plain
    return text


def read_path(text: str, workspace: str, follow: Follow) -> str | None:
    """Return the path relative to the workspace, links resolved (`.` for the workspace itself).

    None if it is outside of the workspace, or another parser may read it differently.
    """
    has_control = any(unicodedata.category(character) in ("Cc", "Cf") for character in text)
    if has_control or _ENCODED_STEP.search(text) or "\\" in text or text.startswith("~"):
        return None
    root = root_of(workspace, follow)
    real = follow(posixpath.normpath(posixpath.join(root, unicodedata.normalize("NFC", text))))
    if real == root:
        return "."
    return real[len(root) + 1 :] if real.startswith(f"{root}/") else None


def root_of(workspace: str, follow: Follow) -> str:
    """Return the workspace, links resolved, without a final slash."""
    return follow(posixpath.normpath(workspace or _NOWHERE))


def targets_of(spec: ToolSpec) -> Mapping[str, TargetKind]:
    """Return the arguments that name what a call reaches: declared ones, and those of JSON Schema's format `uri`."""
    properties: dict[str, Any] = spec.parameters.get("properties", {})
    by_format = {name: TargetKind.URL for name, rule in properties.items() if _holds_urls(rule)}
    return {**by_format, **spec.targets} if by_format else spec.targets


def urls_of(spec: ToolSpec, arguments: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield argument and URL: those that are declared or so called, and texts that begin like a URL."""
    kinds = targets_of(spec)
    for name, value in arguments.items():
        if kinds.get(name) is TargetKind.URL:
            yield from ((name, text) for text in texts_in(value))
        elif isinstance(value, str) and value and (name.lower() in _ADDRESSES or is_url_like(value)):
            yield name, value


def _holds_urls(rule: Any) -> bool:
    """Return whether the schema is that of a URL, of a list of URLs, or of alternatives with one."""
    if not isinstance(rule, dict):
        return False
    if rule.get("format") in ("uri", "url", "iri"):
        return True
    within = [rule.get("items"), *(choice for word in _CHOICES for choice in rule.get(word) or ())]
    return any(map(_holds_urls, within))


def texts_in(value: Any) -> Iterable[str]:
    """Yield every text in a JSON value, including the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)


def _parted(text: str) -> tuple[str, str]:
    """Return the scheme (https if there is none), and what follows its colon and any number of slashes."""
    scheme, found, rest = text.partition("://")
    if found:
        return scheme.lower(), rest.lstrip("/")
    if special := _SLASHLESS.match(text):
        return special[1].lower(), text[special.end() :]
    return "https", text.lstrip("/")


def _careless_hosts(authority: str) -> set[str]:
    """Return the host and port for each possible end of the authority, and of a user name in it."""
    texts = {authority, decoded(authority)}
    texts |= {_AUTHORITY_END.split(text, maxsplit=1)[0] for text in texts}
    return {part for text in texts for part in (text.partition("@")[2], text.rpartition("@")[2]) if part}


def _careless_urls(scheme: str, authority: str, path: str) -> Iterable[Url]:
    name, colon, digits = authority.rpartition(":")
    if not colon or authority.endswith("]"):
        name, digits = authority, ""
    port = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 6 else None
    if port == DEFAULT_PORTS.get(scheme):
        port = None
    path, mark, query = path.partition("?")
    path = f"{_walked(quote(path, safe=_PLAIN_IN_PATHS))}{mark}{query}"
    for host in _hosts(name.strip("[]")) or {name.lower()}:
        yield Url(scheme, host, port, path)


def _host(text: str) -> str:
    """Return the normalized host: addresses in one notation, names in ASCII.

    Raises ValueError for other characters, and for names that IDNA 2003 and 2008 map differently.
    """
    hosts = _hosts(text)
    if len(hosts) != 1 or not _PLAIN_HOST.fullmatch(host := hosts.pop()):
        raise ValueError("not a plain host")
    return host


def _hosts(text: str) -> set[str]:
    """Return the host under each IDNA standard; empty if invalid under both."""
    name = text.rstrip(".").lower()
    try:
        if ":" in name:
            address = ipaddress.IPv6Address(name.partition("%")[0])
            return {str(address.ipv4_mapped) if address.ipv4_mapped else f"[{address}]"}
        names = {name.encode("idna").decode("ascii")} if name else set()
        if not READ_DIFFERENTLY.isdisjoint(name):
            names.add(".".join(map(punycode, name.split("."))))
    except ValueError:
        return set()
    return {_as_address(name) for name in names}


def _as_address(name: str) -> str:
    if _NUMBER_HOST.match(name):
        try:
            return socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            pass  # a name such as `cafe.fade`
    return name


def _walked(path: str) -> str:
    """Return the path with `.` and `..` resolved; `..` never leads above the root."""
    if not path:
        return "/"
    walked = posixpath.normpath(f"/{path.lstrip('/')}")
    return f"{walked}/" if path.endswith("/") and walked != "/" else walked
