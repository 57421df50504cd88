"""`http_request`: makes one request to an API allowed by KOMAND_HTTP_REQUEST_HOSTS."""

import base64
import re
from dataclasses import replace
from typing import Any

from audit_app.kernel import redact
from audit_app.kernel.errors import AppError
from tools_app import conf
from tools_app.network import page_text, ssrf_guard
from tools_app.network.http_request import HttpAnswer, Limits, check_target, request
from tools_app.network.ssrf_guard import MAX_URL_CHARACTERS
from tools_app.parameters import boolean, integer, parameters, text
from tools_app.policy import credential_access
from tools_app.secrets import credentials
from tools_app.types import Effect, Reads, Risk, TargetKind, Tool, ToolContext, ToolError, ToolSpec
from tools_app.types.credential_use import CredentialUse

_DEFAULT_CHARACTERS = 20_000
_MAX_CHARACTERS = 100_000
_MAX_BODY_CHARACTERS = 200_000
_SAFE = ("GET", "HEAD")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_SHOWN_HEADERS = ("content-type", "content-length", "location", "etag", "last-modified", "link", "retry-after")
_NETWORK_SHARE = 0.9
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
# Set by the transport, or by this tool.
_REFUSED_HEADERS = """
    host content-length transfer-encoding connection upgrade te trailer expect keep-alive proxy-authorization
    proxy-connection accept-encoding idempotency-key
"""
_TEXT = re.compile(r"text/.*|.*[/+](?:json|xml|yaml|javascript|x-www-form-urlencoded|x-ndjson|graphql)")


class HttpRequest(Tool):
    spec = ToolSpec(
        name="http_request",
        description=(
            "Make one HTTP request to an API that the operator has allowed. Redirects are not followed: the answer "
            "names where they lead. For a secret write {{credential:NAME}} into a header; you never see its value."
        ),
        parameters=parameters(
            "url",
            method={"enum": list(_METHODS), "default": "GET", "description": "Default GET."},
            url=text("The full URL, beginning with https:// or http://.", minLength=1, maxLength=MAX_URL_CHARACTERS),
            headers={
                "type": "object",
                "additionalProperties": {"type": "string", "maxLength": 4_000},
                "maxProperties": 30,
                "description": "Headers by name, such as Content-Type or Authorization.",
            },
            body=text("The body as text, in the form that Content-Type says.", maxLength=_MAX_BODY_CHARACTERS),
            idempotency_key=boolean(
                "True if the server knows the Idempotency-Key header: it is sent along, and a request that "
                "breaks off is safely made again."
            ),
            max_characters=integer(
                f"Cut the answer after so many characters. Default {_DEFAULT_CHARACTERS}.", 100, _MAX_CHARACTERS
            ),
        ),
        effect=Effect.ONCE,
        risk=Risk.HIGH,
        timeout_seconds=60,
        targets={"url": TargetKind.URL},
        reads=Reads.OUTSIDE,
        sends=("url", "method", "headers", "body"),
    )

    def risk_of(self, arguments: dict[str, Any]) -> Risk:
        """Return low for reading, unless headers or a body identify the caller."""
        if _method(arguments) not in _SAFE:
            return Risk.HIGH
        return Risk.MEDIUM if arguments.get("headers") or arguments.get("body") else Risk.LOW

    def effect_of(self, arguments: dict[str, Any]) -> Effect:
        if _method(arguments) in _SAFE:
            return Effect.READ
        return Effect.KEYED if arguments.get("idempotency_key") else Effect.ONCE

    def credentials_of(self, arguments: dict[str, Any], actor: str) -> CredentialUse:
        """Return the credentials of the run's user that the headers refer to."""
        texts = " ".join(arguments.get("headers", {}).values())
        return CredentialUse(credentials.find_references(texts), actor, arguments["url"])

    def check(self, arguments: dict[str, Any]) -> None:
        check_target(arguments["url"], conf.http_request_hosts(), conf.private_fetch_targets())
        _check_headers(arguments.get("headers", {}))

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"url", "status", "headers": the relevant ones, "encoding": "text" | "base64", "body", "truncated",
        "bytes": of the body as far as it was read}."""
        method = _method(arguments)
        headers = _headers(arguments.get("headers", {}), self._open_credentials(arguments, context))
        if arguments.get("idempotency_key") and method not in _SAFE:
            headers["idempotency-key"] = context.effect_key
        seconds = context.timeout_seconds * _NETWORK_SHARE
        limits = Limits(seconds, conf.http_request_hosts(), conf.private_fetch_targets())
        body = arguments.get("body", "").encode()
        answer = request(method, arguments["url"], headers=headers, body=body, limits=limits)
        return _result(answer, arguments.get("max_characters", _DEFAULT_CHARACTERS))

    def _open_credentials(self, arguments: dict[str, Any], context: ToolContext) -> dict[str, str]:
        """Return the values of the credentials by name, if they may be sent to where the request goes."""
        use = self.credentials_of(arguments, context.actor)
        if not use.names:
            return {}
        # Their hosts are compared with the URL that is requested, as the transport parses it.
        target = ssrf_guard.check_url(arguments["url"], allowed_private=conf.private_fetch_targets())
        caller = {"agent_id": context.agent_id, "actor": context.actor}
        try:
            return credential_access.open_credentials(
                replace(use, url=str(target.url)), purpose="http_request", **caller
            )
        except AppError as error:
            raise ToolError(error.message) from None


def _method(arguments: dict[str, Any]) -> str:
    return str(arguments.get("method", "GET"))


def _headers(given: dict[str, str], values: dict[str, str]) -> dict[str, str]:
    """Return the headers with the values of credentials in place of the references to them."""
    headers = {name.lower(): credentials.fill_references(value, values) for name, value in given.items()}
    _check_headers(headers)
    return headers


def _check_headers(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in _REFUSED_HEADERS.split():
            raise ToolError(f"The header {name[:100]!r} cannot be set.")
        if not value.isascii() or any(ord(sign) < 32 and sign != "\t" for sign in value):
            raise ToolError(f"The value of the header {name} is not plain text.")


def _result(answer: HttpAnswer, limit: int) -> dict[str, Any]:
    media_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = "text" if _TEXT.fullmatch(media_type) or not answer.body else "base64"
    if encoding == "text":
        body = page_text.decode(answer.body, charset=answer.charset, is_html=False, is_cut=answer.is_cut)
    else:
        body = base64.b64encode(answer.body).decode()
    shown = {name: value for name in _SHOWN_HEADERS if (value := answer.headers.get(name))}
    result = {
        "url": answer.url,
        "status": answer.status,
        "headers": shown,
        "encoding": encoding,
        "body": body[:limit],
        "truncated": answer.is_cut or len(body) > limit,
        "bytes": len(answer.body),
    }
    return dict(redact.masked(result))  # an API may echo secrets
