import socket
import ssl
from datetime import UTC, datetime

import pytest

from agents_app.providers import errors
from agents_app.providers.errors import Endpoint

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
KEY = "sk-very-secret-key-0123456789"
ENDPOINT = Endpoint("https://user:pass@models.example:8443/v1", "big-1", KEY)


@pytest.mark.parametrize(
    ("status", "body", "code", "retryable", "expected"),
    [
        (401, {"message": "Incorrect API key"}, "model_auth", False, "refused the API key"),
        (403, {"message": "Country not supported"}, "model_auth", False, "Country not supported"),
        (404, {"message": "x"}, "model_bad_request", False, "no model 'big-1', or its base URL is wrong"),
        (400, {"message": "bad tool"}, "model_bad_request", False, "bad tool"),
        (400, {"code": "context_length_exceeded"}, "model_context_overflow", False, "too long"),
        (413, None, "model_context_overflow", False, "too long"),
        (422, {"detail": [{"loc": "messages"}]}, "model_bad_request", False, "messages"),
        (429, None, "model_rate_limited", True, "too many requests"),
        (429, {"code": "insufficient_quota"}, "model_rate_limited", False, "quota"),
        (402, "Insufficient Balance", "model_rate_limited", False, "billing"),
        (408, None, "model_timeout", True, "timed out"),
        (500, "<html>boom</html>", "model_error", True, "(500)"),
        (529, {"error": {"type": "overloaded_error"}}, "model_error", True, "(529)"),
        (301, None, "model_bad_request", False, "(301)"),
    ],
)
def test_every_status_has_its_error(status: int, body: object, code: str, retryable: bool, expected: str) -> None:
    error = errors.of_status(ENDPOINT, status, body)
    assert (error.code, error.retryable) == (code, retryable)
    assert expected in error.message and "<html>" not in error.message


@pytest.mark.parametrize(
    "body",
    [
        {"code": "model_not_found", "message": "The requested model 'big-1' does not exist."},  # OpenAI's Responses API
        {"object": "error", "message": "Invalid model: big-1", "type": "invalid_model", "code": "1500"},  # Mistral
        {"code": 400, "message": "lab/big-1 is not a valid model ID"},  # OpenRouter
        "Model not found: big-1",  # xAI
        {"code": "invalid_request_error", "message": "The supported API model names are a or b, but you passed big-1."},
    ],
)
def test_an_unknown_model_is_recognised_without_its_status(body: object) -> None:
    error = errors.of_status(ENDPOINT, 400, body)
    assert (error.code, error.another_model_helps) == ("model_bad_request", True)
    assert "has no model 'big-1'" in error.message


def test_a_wrong_key_is_recognised_without_its_status() -> None:
    error = errors.of_status(ENDPOINT, 400, "Incorrect API key provided. You can obtain one from the console.")
    assert (error.code, error.another_model_helps) == ("model_auth", True)
    assert "refused the API key" in error.message


def test_a_call_that_the_server_rejects_is_tried_again() -> None:
    body = {"code": "tool_use_failed", "type": "invalid_request_error", "message": "no match", "status_code": 400}
    for error in (errors.of_status(ENDPOINT, 400, body), errors.of_error_object(body, ENDPOINT)):
        assert (error.code, error.retryable) == ("model_error", True)


def test_a_content_filter_is_named() -> None:
    body = {"error": {"code": "content_filter", "status": 400, "message": "The prompt was filtered."}}
    error = errors.of_status(ENDPOINT, 400, body)
    assert (error.code, error.retryable) == ("model_bad_request", False)
    assert "content filter" in error.message and "Change the message" in error.message


@pytest.mark.parametrize("raw", ["busy upstream", '{"error": {"message": "busy upstream", "code": 7}}'])
def test_the_message_of_the_server_behind_a_gateway_is_shown(raw: str) -> None:
    metadata = {"provider_name": "Lab", "raw": raw}
    error = errors.of_status(ENDPOINT, 429, {"code": 429, "message": "Provider returned error", "metadata": metadata})
    assert error.message.endswith("Its message: Provider returned error busy upstream")


def test_a_missing_key_and_a_wrong_one_have_different_messages() -> None:
    error = errors.of_status(Endpoint("http://a/v1", "m"), 401, None)
    assert "none is set" in error.message


def test_messages_never_show_a_key_or_a_password() -> None:
    sent = f"Incorrect API key provided: {KEY} or sk-other-secret-key-999999999."
    for status in (400, 403, 404, 429, 500):
        message = errors.of_status(ENDPOINT, status, {"error": {"message": sent}}).message
        assert KEY not in message and "sk-other" not in message and "pass@" not in message


def test_long_texts_of_the_server_are_cut() -> None:
    assert len(errors.of_status(ENDPOINT, 400, {"message": "x " * 5000}).message) < 600


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": "Sun, 01 Mar 2026 12:00:30 GMT"}, 30.0),
        ({"retry-after": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sun, 01 Mar 99999999999 12:00:30 GMT"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert errors.retry_after_seconds(headers, now=NOW) == seconds


def test_a_wait_is_passed_on_but_an_endless_one_is_not_waited_for() -> None:
    short, long = (errors.of_status(ENDPOINT, 429, None, wait=seconds) for seconds in (3.0, 86_400.0))
    assert (short.retryable, short.retry_after_seconds) == (True, 3.0) and "3 seconds" in short.message
    assert not long.retryable


@pytest.mark.parametrize(
    ("error", "code", "retryable"),
    [
        ({"code": 429, "message": "slow down"}, "model_rate_limited", True),
        ({"type": "insufficient_quota"}, "model_rate_limited", False),
        ({"code": "context_length_exceeded"}, "model_context_overflow", False),
        ({"code": "invalid_api_key"}, "model_auth", False),
        ({"type": "server_error", "message": "oops"}, "model_error", True),
        ("oops", "model_error", True),
    ],
)
def test_an_error_object_is_read_like_a_status(error: object, code: str, retryable: bool) -> None:
    fault = errors.of_error_object(error, ENDPOINT)
    assert (fault.code, fault.retryable) == (code, retryable)


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (socket.gaierror(-2, "Name or service not known"), "host name cannot be resolved"),
        (ssl.SSLCertVerificationError("self-signed"), "TLS"),
        (ConnectionRefusedError(111, "refused"), "refuses connections"),
        (TimeoutError(), "does not respond"),
        (OSError("No route to host"), "connection failed"),
    ],
)
def test_the_error_of_an_unreachable_server_names_the_cause(cause: Exception, expected: str) -> None:
    error = RuntimeError("Connection error.")
    error.__cause__ = ExceptionGroup("all attempts failed", [cause])
    fault = errors.unreachable(ENDPOINT, error)
    assert fault.code == "model_unreachable" and expected in fault.message
