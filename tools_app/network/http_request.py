"""Makes one HTTP request to a host that an operator has allowed, within fixed limits. Follows no redirects."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import httpx2

from tools_app.network import ssrf_guard
from tools_app.network.fetch import read_body
from tools_app.network.ssrf_guard import CheckedUrl, RefusedTargetError
from tools_app.network.transport import Budget, GuardedTransport, fault_texts

MAX_BYTES = 1024 * 1024
_WIRE_EXTRA_BYTES = 512 * 1024
_READ_SECONDS = 30.0
USER_AGENT = "Komand http_request"


@dataclass(frozen=True)
class Limits:
    """Limits of a request.

    hosts: see `allows`.
    allowed_private: see `ssrf_guard.check_url`.
    """

    seconds: float
    hosts: Collection[str]
    allowed_private: Collection[str]


@dataclass(frozen=True)
class HttpAnswer:
    """An HTTP response.

    headers: names in lower case.
    body: decompressed, at most MAX_BYTES.
    is_cut: it was longer.
    """

    url: str
    status: int
    headers: dict[str, str]
    charset: str | None
    body: bytes
    is_cut: bool


def allows(hosts: Collection[str], host: str, port: int) -> bool:
    """Return whether `hosts` has the host; all in lower case: `example.com` or `*.example.com`, also with a port."""
    for allowed in hosts:
        name, _, number = allowed.rpartition(":")
        if not (name and number.isdigit() and not name.endswith(":")):
            name, number = allowed, ""
        if number and int(number) != port:
            continue
        if name == host or (name.startswith("*.") and host.endswith(name[1:])):
            return True
    return False


def check_target(url: str, hosts: Collection[str], allowed_private: Collection[str]) -> CheckedUrl:
    """Return the checked URL. hosts, allowed_private: as of `Limits`. Raises RefusedTargetError. Sends nothing."""
    target = ssrf_guard.check_url(url, allowed_private=allowed_private)
    if not allows(hosts, target.host, target.port):
        raise RefusedTargetError(f"The host {target.host} is not among the allowed hosts.")
    return target


def request(method: str, url: str, *, headers: Mapping[str, str], body: bytes, limits: Limits) -> HttpAnswer:
    """Make the request; any HTTP status is a result. Blocks for at most about `limits.seconds`.

    Raises ToolError with a message for the model; RefusedTargetError for a URL that must not be reached.
    """
    target = check_target(url, limits.hosts, limits.allowed_private)
    budget = Budget(seconds=limits.seconds, wire_bytes=MAX_BYTES + _WIRE_EXTRA_BYTES)
    transport = GuardedTransport(budget, limits.allowed_private)
    usual = {"user-agent": USER_AGENT, "accept": "*/*", "accept-encoding": "gzip, deflate"}
    with (
        httpx2.Client(transport=transport, trust_env=False, headers=usual, timeout=_READ_SECONDS) as client,
        fault_texts(),
        client.stream(method, target.url, headers=dict(headers), content=body or None) as response,
    ):
        return _read(response)


def _read(response: httpx2.Response) -> HttpAnswer:
    body, is_cut = read_body(response, MAX_BYTES)
    headers = {name.lower(): value for name, value in response.headers.items()}
    url, charset = str(response.request.url), response.charset_encoding
    return HttpAnswer(url, response.status_code, headers, charset, body, is_cut)
