"""HTTP skills: one request to the manifest's own host, with the owner's credentials, within limits of time and size."""

import asyncio
import json
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from audit_app.kernel import redact
from audit_app.kernel.database import in_db
from audit_app.kernel.errors import AppError
from tools_app import conf
from tools_app.network import page_text, ssrf_guard
from tools_app.network.async_transport import AsyncGuardedTransport
from tools_app.policy import credential_access
from tools_app.skills.installed import Installed, check_permissions, checked_output, spec_of
from tools_app.skills.templates import HttpTemplate, RenderedRequest, UnfitValue, render
from tools_app.types import AsyncTool, ToolContext, ToolError
from tools_app.types.credential_use import INSTALLATION, CredentialUse

_MAX_BYTES = 1024 * 1024
_MAX_REDIRECTS = 3
_SHOWN_CHARACTERS = 500
# The rest of the time limit is for reading credentials and for processing the response.
_NETWORK_SHARE = 0.9
_CONNECT_SECONDS = 5.0
_HEADERS = {
    "user-agent": "Komand skill",
    "accept": "application/json, text/*;q=0.9, */*;q=0.1",
    "accept-encoding": "identity",  # so that the bytes counted are the bytes held
}


@dataclass(frozen=True)
class _Answer:
    """A response.

    media_type: lower case, without parameters.
    body: unmasked, so it may repeat the secrets sent.
    """

    status: int
    media_type: str
    charset: str | None
    body: bytes


class HttpSkill(AsyncTool):
    """An installed skill whose manifest has an HTTP request."""

    def __init__(self, installed: Installed, template: HttpTemplate) -> None:
        self._installed = installed
        self._template = template
        self.spec = replace(spec_of(installed), reaches=template.origin)

    async def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return the JSON value of the response, or its text, validated by the manifest's output schema."""
        check_permissions(self._installed)
        request = await self._request(arguments, context)
        seconds = context.timeout_seconds * _NETWORK_SHARE
        try:
            async with asyncio.timeout(seconds):
                answer = await self._send(request)
        except TimeoutError:
            raise ToolError(f"The server did not respond within {seconds:.0f} seconds.") from None
        except httpx2.HTTPError as error:
            raise ToolError(f"The server cannot be reached: {type(error).__name__}.") from None
        # In a thread: processing a large response may block, and other runs share this loop.
        return await asyncio.to_thread(self._read, answer)

    def _read(self, answer: _Answer) -> Any:
        text = redact.without_remembered(page_text.decode(answer.body, charset=answer.charset, is_html=False))
        if answer.status >= 400:
            raise ToolError(f"The server responded with status {answer.status}: {text[:_SHOWN_CHARACTERS]}")
        return checked_output(self._installed, _value_of(answer.media_type, text))

    def credentials_of(self, arguments: dict[str, Any], actor: str) -> CredentialUse:
        """Return the credentials of the user who installed the skill, or of the installation."""
        owner_id = self._installed.owner_id
        owner = INSTALLATION if owner_id is None else f"user:{owner_id}"
        return CredentialUse(self._template.credentials, owner, self._template.origin, has_fixed_host=True)

    def _open_credentials(self, context: ToolContext) -> dict[str, str]:
        use, purpose = self.credentials_of({}, context.actor), f"skill {self._installed.manifest.skill_id}"
        return credential_access.open_credentials(use, agent_id=context.agent_id, actor=context.actor, purpose=purpose)

    async def _request(self, arguments: dict[str, Any], context: ToolContext) -> RenderedRequest:
        try:
            return render(self._template, arguments, await in_db(self._open_credentials, context))
        except AppError as error:
            raise ToolError(error.message) from None
        except UnfitValue as error:
            raise ToolError(str(error)) from None

    async def _send(self, request: RenderedRequest) -> _Answer:
        """Send the request. A few redirects of a GET or HEAD request are followed within the origin."""
        allowed = conf.skill_targets()
        target = ssrf_guard.check_url(request.url, allowed_private=allowed)
        async with httpx2.AsyncClient(
            transport=AsyncGuardedTransport(allowed),
            trust_env=False,
            headers=_HEADERS,
            timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
        ) as client:
            sent = client.build_request(request.method, target.url, headers=request.headers, content=request.body)
            if _origin(sent.url) != _origin(httpx2.URL(self._template.origin)):
                raise ToolError("The request would go to another host than the skill's.")
            return await _follow(client, sent)


async def _follow(client: httpx2.AsyncClient, sent: httpx2.Request) -> _Answer:
    for _ in range(_MAX_REDIRECTS + 1):
        response = await client.send(sent, stream=True, follow_redirects=False)
        try:
            if response.next_request is None:
                return await _receive(response)
            sent = _next(sent, response.next_request)
        finally:
            await response.aclose()
    raise ToolError(f"The server redirects more than {_MAX_REDIRECTS} times.")


def _next(sent: httpx2.Request, following: httpx2.Request) -> httpx2.Request:
    if sent.method not in ("GET", "HEAD") or _origin(sent.url) != _origin(following.url):
        raise ToolError("The server redirects the request to another host, which skills do not follow.")
    return following


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host.removesuffix("."), url.port


async def _receive(response: httpx2.Response) -> _Answer:
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise ToolError("The server sent a compressed response, which is not supported.")
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > _MAX_BYTES:
            raise ToolError(f"The server's response is larger than {_MAX_BYTES // 1024} KB.")
    media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return _Answer(response.status_code, media_type, response.charset_encoding, bytes(body))


def _value_of(media_type: str, text: str) -> Any:
    """Return the JSON value of the response, or its text if its media type is not JSON."""
    if not (media_type == "application/json" or media_type.endswith("+json")):
        return text
    try:
        return json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        raise ToolError("The server's response is declared as JSON but is not valid JSON.") from None
