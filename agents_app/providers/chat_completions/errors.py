"""What a failed call is told as: one ProviderError for every way in which a model server can fail.

Messages are for the person who waits and for the operator: what happened and what to do, never a key.
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

from agents_app.providers.base import ProviderError
from agents_app.providers.chat_completions.text_repair import mend
from audit_app.kernel.redact import MASK, masked_text
from audit_app.kernel.shorten import shorten

MAX_RETRY_AFTER_SECONDS = 600.0
_MAX_WORDS = 300
_QUOTA_CODES = {"insufficient_quota", "billing_hard_limit_reached", "quota_exceeded", "insufficient_balance"}
_LENGTH_CODES = {"context_length_exceeded", "string_above_max_length", "request_too_large"}
_STATUS_OF_CODE = {
    "invalid_api_key": 401,
    "authentication_error": 401,
    "permission_error": 403,
    "model_not_found": 404,
    "invalid_request_error": 400,
    "context_length_exceeded": 400,
    "insufficient_quota": 429,
    "rate_limit_exceeded": 429,
    "rate_limit_error": 429,
}


@dataclass(frozen=True)
class Endpoint:
    """Which server and model a message speaks of. api_key: only to mask it in the server's words."""

    base_url: str
    model: str
    api_key: str = ""

    @property
    def server(self) -> str:
        """The server's name for messages, without path and password."""
        parts = urlsplit(self.base_url)
        return f"the model server {parts.netloc.rpartition('@')[2]}" if parts.netloc else "the model server"


def of_status(endpoint: Endpoint, status: int, body: object, *, wait: float | None = None) -> ProviderError:
    """The error of an HTTP answer. body: parsed JSON, text or None; wait: see `retry_after_seconds`."""
    codes, words = _codes(body), _words(body, endpoint)
    server = _sentence(endpoint.server)
    if status == 402 or codes & _QUOTA_CODES:
        message = f"{server} says that the account's quota is used up. Check its plan and billing.{words}"
        return ProviderError(message, code="model_rate_limited", retryable=False)
    if status in (401, 403):
        return _refused_key(endpoint, server, status, words)
    if status == 429:
        return _limited(server, wait, words)
    if status == 404:
        return ProviderError(
            f"{server} has no model {endpoint.model!r}, or its base URL is wrong. Check both in the admin.{words}",
            code="model_bad_request",
        )
    if status == 408:
        return ProviderError(f"{server} gave up waiting (408). Try again.{words}", code="model_timeout")
    if status == 413 or codes & _LENGTH_CODES:
        message = f"The conversation is too long for the model {endpoint.model!r}. Start a new session.{words}"
        return ProviderError(message, code="model_bad_request")
    if status >= 500 or status in (409, 425):
        message = f"{server} has a fault of its own ({status}). Try again; if it stays, check that server.{words}"
        return ProviderError(message, code="model_error", **_waiting(wait))
    message = f"{server} did not accept the request ({status}). Check the provider and the model's name.{words}"
    return ProviderError(message, code="model_bad_request")


def of_error_object(error: object, endpoint: Endpoint) -> ProviderError:
    """An `error` that arrives inside a stream which had begun well."""
    codes = _codes({"error": error})
    status = next((int(code) for code in codes if re.fullmatch("[45][0-9]{2}", code)), 0)
    status = status or next((_STATUS_OF_CODE[code] for code in sorted(codes) if code in _STATUS_OF_CODE), 500)
    if status < 500:
        return of_status(endpoint, status, {"error": error})
    words = _words({"error": error}, endpoint)
    return ProviderError(f"{_sentence(endpoint.server)} broke off with an error. Try again.{words}", code="model_error")


def unreachable(endpoint: Endpoint, error: BaseException) -> ProviderError:
    """No connection, or one that ended before any answer."""
    message = (
        f"{_sentence(endpoint.server)} cannot be reached: {_reason(error)}. "
        "Check that it runs and that the provider's base URL is right."
    )
    return ProviderError(message, code="model_unreachable")


def bad_base_url() -> ProviderError:
    return ProviderError(
        "The model provider's base URL is not valid. It has to look like https://api.openai.com/v1.",
        code="model_bad_request",
    )


def bad_key(endpoint: Endpoint) -> ProviderError:
    return ProviderError(
        f"The API key for {endpoint.server} has characters that no key has. Enter it again in the admin.",
        code="model_auth",
    )


def not_a_model_server(endpoint: Endpoint) -> ProviderError:
    return ProviderError(
        f"{_sentence(endpoint.server)} answered with a web page. Check the provider's base URL; most end in /v1.",
        code="model_bad_request",
    )


def no_model(endpoint: Endpoint) -> ProviderError:
    return ProviderError(
        f"No model is chosen for {endpoint.server}. Set one for the agent or a default for its provider.",
        code="model_bad_request",
    )


def silent(endpoint: Endpoint, seconds: float) -> ProviderError:
    return ProviderError(
        f"{_sentence(endpoint.server)} was silent for {seconds:g} seconds. Try again.", code="model_timeout"
    )


def too_slow(endpoint: Endpoint, seconds: float) -> ProviderError:
    return ProviderError(
        f"{_sentence(endpoint.server)} did not finish its answer in {seconds:g} seconds. Ask for less.",
        code="model_timeout",
    )


def stream_cut(endpoint: Endpoint, what: str) -> ProviderError:
    """what: how it ended, after the server's name."""
    return ProviderError(f"{_sentence(endpoint.server)} {what}. Try again.", code="model_stream_cut")


def too_large(endpoint: Endpoint) -> ProviderError:
    return ProviderError(
        f"{_sentence(endpoint.server)} sent more than an answer may hold. Ask for less.",
        code="model_error",
        retryable=False,
    )


def retry_after_seconds(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """How long `retry-after-ms` or `retry-after` (seconds or a date) asks to wait; None without a valid one.

    headers: names in lower case.
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
    except ValueError:
        return None
    return max((at.replace(tzinfo=at.tzinfo or UTC) - now).total_seconds(), 0.0)


def _limited(server: str, wait: float | None, words: str) -> ProviderError:
    when = f" Try again in {math.ceil(wait)} seconds." if wait else " Try again in a moment."
    return ProviderError(f"{server} gets too many requests.{when}{words}", code="model_rate_limited", **_waiting(wait))


def _waiting(wait: float | None) -> dict[str, Any]:
    """A wait that no person would sit out is not retried."""
    retryable = None if wait is None or wait <= MAX_RETRY_AFTER_SECONDS else False
    return {"retry_after_seconds": wait, "retryable": retryable}


def _refused_key(endpoint: Endpoint, server: str, status: int, words: str) -> ProviderError:
    if not endpoint.api_key:
        message = f"{server} asks for an API key and none is set. Set one in the admin."
    elif status == 401:
        message = f"{server} refused the API key. Set a valid one in the admin."
    else:
        message = f"{server} does not allow this with the API key that is set. Check its rights.{words}"
    return ProviderError(message, code="model_auth")


def _codes(body: object) -> set[str]:
    """Every code and type that an error body names, as text."""
    error = body.get("error", body) if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return set()
    return {str(error[name]) for name in ("code", "type", "status") if error.get(name)}


def _words(body: object, endpoint: Endpoint) -> str:
    """The server's own words as a closing sentence; empty when it said nothing that can be shown."""
    found: object = body
    while isinstance(found, dict):
        found = next((found[name] for name in ("error", "message", "detail") if found.get(name)), None)
    if isinstance(found, list):
        found = json.dumps(found)
    if not isinstance(found, str) or found.lstrip().startswith("<"):
        return ""
    words = " ".join(mend(found).split())
    if endpoint.api_key:
        words = words.replace(endpoint.api_key, MASK)
    words = shorten(masked_text(words), _MAX_WORDS)
    return f" It said: {words}" if words else ""


def _reason(error: BaseException) -> str:
    for cause in _causes(error):
        if isinstance(cause, socket.gaierror):
            return "its name is not known"
        if isinstance(cause, ssl.SSLError):
            return "its TLS certificate or encryption is not accepted"
        if isinstance(cause, ConnectionRefusedError):
            return "it refuses connections"
        if isinstance(cause, TimeoutError):
            return "it does not answer"
    return "the connection failed"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, what caused it, and for groups what they hold, each once."""
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
