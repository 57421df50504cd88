"""The ProviderError of each failure of a model server.

Messages are for users and operators: what happened and what to do. They never contain a key.
"""

import json
import math
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from agents_app.providers.base import ModelUnavailable, ProviderError
from agents_app.providers.context_overflow import NO_SIZES, Overflow, find_overflow
from agents_app.providers.text_repair import repair
from audit_app.kernel.redact import MASK, masked_text
from audit_app.kernel.shorten import shorten

MAX_RETRY_AFTER_SECONDS = 600.0
_MAX_SERVER_TEXT = 300
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "quota_exceeded", "insufficient_balance"}
_FILTER_CODES = {"content_filter", "content_policy_violation"}
_MODEL_CODES = {"model_not_found", "invalid_model"}
_REJECTED_CALL_CODES = {"tool_use_failed"}  # Groq's, for a call that does not match the schema of its tool
# Errors that some servers send with the status 400 and without a code.
_UNKNOWN_MODEL = re.compile("model not found|not a valid model|supported API model names", re.IGNORECASE)
_WRONG_KEY = re.compile("(?:incorrect|invalid) API key", re.IGNORECASE)
_NEVER_OVERFLOW = {401, 402, 403, 404, 408}
_STATUS_OF_CODE = {
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
    "image_parse_error": 400,
    "invalid_image": 400,
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
}


@dataclass(frozen=True)
class Endpoint:
    """The server and model that a message names. api_key: only to mask it in texts of the server."""

    base_url: str
    model: str
    api_key: str = ""

    @property
    def server(self) -> str:
        """Return the server's name for messages, without path and password."""
        parts = urlsplit(self.base_url)
        return f"the model server {parts.netloc.rpartition('@')[2]}" if parts.netloc else "the model server"


def of_status(endpoint: Endpoint, status: int, body: object, *, wait: float | None = None) -> ProviderError:
    """Return the error of an HTTP response.

    body: parsed JSON, text or None.
    wait: see `retry_after_seconds`.
    """
    codes, detail = _codes(body), _server_text(body, endpoint)
    server = _sentence(endpoint.server)
    if status not in _NEVER_OVERFLOW and (overflow := _overflow(status, body)):
        return too_long(endpoint, overflow, detail)
    if 300 <= status < 400:
        message = f"{server} redirects to another address ({status}). Enter that address as the base URL."
        return ProviderError(message, code="model_bad_request")
    if status == 402 or codes & _QUOTA_CODES:
        message = f"{server} reports that the quota of the account is used up. Check its plan and billing.{detail}"
        return ProviderError(message, code="model_rate_limited", retryable=False)
    if status in (401, 403) or (status == 400 and _WRONG_KEY.search(detail)):
        return _refused_key(endpoint, server, status, detail)
    if status == 429:
        seconds = math.ceil(wait) if wait else 0
        when = f"in {seconds} second{'' if seconds == 1 else 's'}" if seconds else "in a moment"
        message = f"{server} is busy: it received too many requests. Try again {when}.{detail}"
        return ProviderError(message, code="model_rate_limited", **_waiting(wait))
    if status == 404 or (status == 400 and (codes & _MODEL_CODES or _UNKNOWN_MODEL.search(detail))):
        message = f"{server} has no model {endpoint.model!r}, or its base URL is wrong. Check both in the admin."
        return ModelUnavailable(message + detail, code="model_bad_request")
    if status == 408:
        message = f"{server} timed out waiting for the request (408). Try again.{detail}"
        return ProviderError(message, code="model_timeout")
    if status >= 500 or status in (409, 425):
        message = f"{server} failed ({status}). Try again; if the error persists, check that server.{detail}"
        return ProviderError(message, code="model_error", **_waiting(wait))
    if codes & _REJECTED_CALL_CODES:
        message = f"{server} rejected what the model wrote as a call of a tool. Try again.{detail}"
        return ProviderError(message, code="model_error")
    if codes & _FILTER_CODES:
        message = f"The content filter of {endpoint.server} refused the request. Change the message.{detail}"
        return ProviderError(message, code="model_bad_request")
    message = f"{server} did not accept the request ({status}). Check the provider and the model's name.{detail}"
    return ProviderError(message, code="model_bad_request")


def too_long(endpoint: Endpoint, sizes: Overflow = NO_SIZES, detail: str = "") -> ProviderError:
    """Return the error of a request that is longer than the model's context. detail: see `_server_text`."""
    limit, request = sizes.limit_tokens, sizes.request_tokens
    known = "" if limit is None else f": it takes {limit:,} tokens"
    known += f", and the request has {request:,}" if limit is not None and request is not None else ""
    message = (
        f"The conversation is too long for the model {endpoint.model!r}{known}. "
        "Shorten the message, start a new session, or choose a model with a larger context."
    )
    return ProviderError(message + ("" if known else detail), code="model_context_overflow", sizes=sizes)


def of_error_object(error: object, endpoint: Endpoint) -> ProviderError:
    """Return the error of an `error` object in the middle of a stream."""
    codes = _codes({"error": error})
    if overflow := _overflow(0, {"error": error}):
        return too_long(endpoint, overflow, _server_text({"error": error}, endpoint))
    status = next((int(code) for code in codes if re.fullmatch("[45][0-9]{2}", code)), 0)
    status = status or next((_STATUS_OF_CODE[code] for code in sorted(codes) if code in _STATUS_OF_CODE), 500)
    if status < 500:
        return of_status(endpoint, status, {"error": error})
    detail = _server_text({"error": error}, endpoint)
    return ProviderError(f"{_sentence(endpoint.server)} stopped with an error. Try again.{detail}", code="model_error")


def unreachable(endpoint: Endpoint, error: BaseException) -> ProviderError:
    """Return the error of a failed connection, or of one that ended before the response."""
    message = (
        f"{_sentence(endpoint.server)} cannot be reached: {_reason(error)}. "
        "Check that it runs and that the provider's base URL is right."
    )
    return ProviderError(message, code="model_unreachable")


def bad_base_url() -> ProviderError:
    message = "The model provider's base URL is not valid. It has to look like https://api.openai.com/v1."
    return ModelUnavailable(message, code="model_bad_request")


def bad_key(endpoint: Endpoint) -> ProviderError:
    message = f"The API key for {endpoint.server} contains invalid characters. Enter it again in the admin."
    return ProviderError(message, code="model_auth")


def not_a_model_server(endpoint: Endpoint) -> ProviderError:
    message = f"{_sentence(endpoint.server)} returned a web page. Check the provider's base URL; most end in /v1."
    return ModelUnavailable(message, code="model_bad_request")


def no_model(endpoint: Endpoint) -> ProviderError:
    message = f"No model is chosen for {endpoint.server}. Set one for the agent or a default for its provider."
    return ModelUnavailable(message, code="model_bad_request")


def silent(endpoint: Endpoint, seconds: float) -> ProviderError:
    message = f"{_sentence(endpoint.server)} sent nothing for {seconds:g} seconds. Try again."
    return ProviderError(message, code="model_timeout")


def too_slow(endpoint: Endpoint, seconds: float) -> ProviderError:
    message = f"{_sentence(endpoint.server)} did not finish its answer in {seconds:g} seconds. Ask for less."
    return ProviderError(message, code="model_timeout")


def stream_cut(endpoint: Endpoint, predicate: str) -> ProviderError:
    """Return the error of an incomplete response. predicate: the message after the server's name."""
    return ProviderError(f"{_sentence(endpoint.server)} {predicate}. Try again.", code="model_stream_cut")


def too_large(endpoint: Endpoint) -> ProviderError:
    message = f"{_sentence(endpoint.server)} sent a response that is too long. Ask for less."
    return ProviderError(message, code="model_error", retryable=False)


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """Return the wait that `retry-after-ms` or `retry-after` (seconds or a date, RFC 9110 §10.2.3) demands.

    headers: names in lower case. None without a valid header.
    """
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / unit
        except ValueError:
            continue
        if math.isfinite(seconds):
            return max(seconds, 0.0)
    try:
        at = parsedate_to_datetime(headers.get("retry-after", ""))
    except (ValueError, OverflowError):
        return None
    return max((at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds(), 0.0)


def _waiting(wait: float | None) -> dict[str, Any]:
    """Return the arguments of ProviderError for a wait. A very long wait is not retried."""
    retryable = None if wait is None or wait <= MAX_RETRY_AFTER_SECONDS else False
    return {"retry_after_seconds": wait, "retryable": retryable}


def _refused_key(endpoint: Endpoint, server: str, status: int, detail: str) -> ProviderError:
    if not endpoint.api_key:
        message = f"{server} requires an API key, but none is set. Set one in the admin."
    elif status != 403:
        message = f"{server} refused the API key. Set a valid one in the admin."
    else:
        message = f"{server} does not allow this with the API key that is set. Check its permissions.{detail}"
    return ProviderError(message, code="model_auth")


def _overflow(status: int, body: object) -> Overflow | None:
    return find_overflow(_error_object(body), _raw_text(body)) or (NO_SIZES if status == 413 else None)


def _codes(body: object) -> set[str]:
    """Return every code, type and status of an error body, as text."""
    error = _error_object(body)
    return {str(error[name]) for name in ("code", "type", "status") if error.get(name)}


def _error_object(body: object) -> dict[str, Any]:
    """Return the object with the code and the message; empty if there is none. Gemini sends it in a list."""
    if isinstance(body, list):
        body = next(iter(body), None)
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return {}
    inner = error.get("error")
    return inner if isinstance(inner, dict) else error


def _raw_text(body: object) -> str:
    """Return the server's message; empty if there is none."""
    found: object = _error_object(body) or body
    while isinstance(found, dict):
        found = next((found[name] for name in ("error", "message", "detail") if found.get(name)), None)
    if isinstance(found, list):
        found = json.dumps(found)
    text = found if isinstance(found, str) else ""
    return f"{text} {upstream}".strip() if (upstream := _upstream_text(_error_object(body))) else text


def _upstream_text(error: Mapping[str, Any]) -> str:
    """Return the message of the server behind a gateway, which sends it as text or JSON beside its own."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str):
        return ""
    try:
        parsed = json.loads(raw)
    except (ValueError, RecursionError):
        return raw
    return (_raw_text(parsed) if isinstance(parsed, dict | list) else "") or raw


def _server_text(body: object, endpoint: Endpoint) -> str:
    """Return the server's message as a last sentence; empty without a message that can be shown."""
    found = _raw_text(body)
    if found.lstrip().startswith("<"):
        return ""
    text = " ".join(repair(found).split())
    if endpoint.api_key:
        text = text.replace(endpoint.api_key, MASK)
    text = shorten(masked_text(text), _MAX_SERVER_TEXT)
    return f" Its message: {text}" if text else ""


def _reason(error: BaseException) -> str:
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return "its host name cannot be resolved"
        if isinstance(cause, ssl.SSLError):
            return "its TLS certificate or encryption is not accepted"
        if isinstance(cause, ConnectionRefusedError):
            return "it refuses connections"
        if isinstance(cause, TimeoutError):
            return "it does not respond"
    return "the connection failed"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the error, its causes and the members of groups, each once."""
    waiting, seen = [error], set()
    while waiting:
        cause = waiting.pop(0)
        if id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        waiting += [follow for follow in (cause.__cause__, cause.__context__) if follow is not None]
        if isinstance(cause, BaseExceptionGroup):
            waiting += cause.exceptions


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
