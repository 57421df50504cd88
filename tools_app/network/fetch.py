"""Fetches one web page within fixed limits, following a few redirects, each checked like the first URL."""

from collections.abc import Collection
from dataclasses import dataclass

import httpx2

from tools_app.network import ssrf_guard
from tools_app.network.transport import Budget, GuardedTransport, fault_texts
from tools_app.types import ToolError

MAX_BYTES = 2 * 1024 * 1024
_MAX_REDIRECTS = 3
# Headers of all responses and the overhead of TLS, on top of the body.
_WIRE_EXTRA_BYTES = 512 * 1024
_READ_SECONDS = 15.0
_HEADERS = {
    "user-agent": "Mozilla/5.0 (compatible; Komand web_fetch)",
    "accept": "text/html,application/xhtml+xml,text/*;q=0.9,application/json;q=0.9,application/xml;q=0.8,*/*;q=0.1",
    "accept-encoding": "gzip, deflate",
}
_TEXT_TYPES = {"application/json", "application/xml", "application/xhtml+xml", "application/javascript"}


@dataclass(frozen=True)
class Fetched:
    """A fetched page.

    url: after redirects.
    media_type: lower case, without parameters.
    body: decompressed, at most MAX_BYTES.
    is_cut: whether it was longer.
    redirect: URL of a redirect to another host, which was not followed.
    """

    url: str
    status: int
    media_type: str
    charset: str | None
    body: bytes
    is_cut: bool
    redirect: str = ""


def fetch(url: str, *, seconds: float, allowed_private: Collection[str]) -> Fetched:
    """GET a text resource; any HTTP status is a result. Blocks for at most about `seconds`.

    Redirects are followed within a host. One to another host or port is returned: following it is another call, which
    the rules about hosts have to permit.
    Raises ToolError with a message for the model; RefusedTargetError for a URL that must not be reached.
    """
    target = ssrf_guard.check_url(url, allowed_private=allowed_private)
    budget = Budget(seconds=seconds, wire_bytes=MAX_BYTES + _WIRE_EXTRA_BYTES)
    transport = GuardedTransport(budget, allowed_private)
    # trust_env=False: no proxy, no netrc; only the guarded connection.
    client = httpx2.Client(transport=transport, trust_env=False, headers=_HEADERS, timeout=_READ_SECONDS)
    with client, fault_texts():
        return _follow(client, target, allowed_private)


def _follow(client: httpx2.Client, target: ssrf_guard.CheckedUrl, allowed_private: Collection[str]) -> Fetched:
    for _ in range(_MAX_REDIRECTS + 1):
        with client.stream("GET", target.url) as response:
            if response.next_request is None:
                return _read(response)
            status, next_url = response.status_code, response.next_request.url
        if target.url.scheme == "https" and next_url.scheme == "http":
            raise ssrf_guard.RefusedTargetError("The page redirects from https to http.")
        following = ssrf_guard.check_url(str(next_url), allowed_private=allowed_private)
        is_upgrade = (target.port, following.port) == (80, 443)  # from http to https on the default ports
        if target.host != following.host or not (target.port == following.port or is_upgrade):
            return Fetched(str(target.url), status, "", None, b"", False, redirect=str(following.url))
        target = following
    raise ToolError(f"The page redirects more than {_MAX_REDIRECTS} times.")


def read_body(response: httpx2.Response, max_bytes: int) -> tuple[bytes, bool]:
    """Return the decompressed body, at most `max_bytes`, and whether it was longer.

    Raises ToolError for a compression that cannot be decompressed in pieces.
    """
    codings = {coding.strip().lower() for coding in response.headers.get("content-encoding", "").split(",")}
    if not codings <= {"", "identity", "gzip", "x-gzip", "deflate"}:
        raise ToolError("The server's response is compressed in an unsupported way.")
    body = bytearray()
    for chunk in response.iter_bytes():  # in pieces, so that a decompression bomb is never unpacked
        body += chunk[: max_bytes + 1 - len(body)]
        if len(body) > max_bytes:
            break
    return bytes(body[:max_bytes]), len(body) > max_bytes


def _read(response: httpx2.Response) -> Fetched:
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not _is_text(media_type):
        raise ToolError(f"The URL refers to {media_type[:80]}, not to text.")
    body, is_cut = read_body(response, MAX_BYTES)
    url, charset = str(response.request.url), response.charset_encoding
    return Fetched(url, response.status_code, media_type, charset, body, is_cut)


def _is_text(media_type: str) -> bool:
    if not media_type or media_type.startswith("text/") or media_type in _TEXT_TYPES:
        return True
    return media_type.startswith("application/") and media_type.endswith(("+json", "+xml"))
