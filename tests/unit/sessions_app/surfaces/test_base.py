"""The pure parts of the REST surface: envelope, times, errors, bodies, request ids, cross-origin headers."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from django.core.exceptions import DisallowedHost
from django.db import OperationalError
from django.http import Http404
from rest_framework.exceptions import MethodNotAllowed, ParseError, ValidationError

from agents_app.errors import IdempotencyMismatch, QueueFull, RunBusy
from audit_app.kernel.errors import Conflict, Forbidden, InvalidInput, NotFound, RateLimited, Unavailable
from sessions_app.identity.principal import Unauthenticated
from sessions_app.identity.request_ids import request_id_from
from sessions_app.surfaces.base.bodies import MOST_LEVELS, parse_json
from sessions_app.surfaces.base.cors import cors_headers
from sessions_app.surfaces.base.http_errors import http_error_of
from sessions_app.surfaces.base.timestamps import iso, time_span
from sessions_app.surfaces.rest import envelope, errors


def test_success_and_failure_have_the_four_fields():
    assert envelope.success([1]) == {"success": True, "data": [1], "error": None, "meta": None}
    assert envelope.failure("no", {"code": "x"}) == {
        "success": False,
        "data": None,
        "error": "no",
        "meta": {"code": "x"},
    }


def test_page_knows_its_offset_and_meta():
    page = envelope.Page(3, 50)
    assert page.offset == 100
    assert page.meta(150) == {"total": 150, "page": 3, "pageSize": 50}


def test_times_are_utc_with_milliseconds_and_z():
    assert iso(datetime(2026, 3, 1, 11, 30, tzinfo=timezone(timedelta(hours=2)))) == "2026-03-01T09:30:00.000Z"
    assert iso(datetime(2026, 3, 1, 9, 30, 0, 1999, tzinfo=UTC)) == "2026-03-01T09:30:00.001Z"
    assert iso(None) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, None),
        (0, "00:00:00"),
        (1.234, "00:00:01.234"),
        (300, "00:05:00"),
        (59.9996, "00:01:00"),
        (93784.5, "1.02:03:04.500"),
    ],
)
def test_durations_have_the_form_of_a_time_span(seconds, text):
    assert time_span(seconds) == text


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidInput(), 400),
        (ParseError(), 400),
        (DisallowedHost(), 400),
        (Unauthenticated(), 401),
        (Forbidden(), 403),
        (NotFound(), 404),
        (Http404(), 404),
        (MethodNotAllowed("PUT"), 405),
        (Conflict(), 409),
        (RunBusy(), 409),
        (IdempotencyMismatch(), 422),
        (RateLimited(retry_after_seconds=3), 429),
        (QueueFull(retry_after_seconds=3), 429),
        (ZeroDivisionError(), 500),
        (Unavailable(), 503),
        (OperationalError("disk I/O error at /secret/path"), 503),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_has_its_status(error, status):
    assert http_error_of(error).status == status


def test_an_unexpected_error_has_no_details(caplog):
    assert "password" not in http_error_of(RuntimeError("password=hunter2")).message
    assert "RuntimeError" in caplog.text


def test_refusals_have_retry_after_and_www_authenticate():
    assert http_error_of(RateLimited(retry_after_seconds=3)).headers == {"Retry-After": "3"}
    assert http_error_of(Unauthenticated()).headers["WWW-Authenticate"].startswith("Bearer")


def test_validation_errors_name_each_field_and_its_problem():
    failure = http_error_of(
        ValidationError({"name": ["Required."], "limits": {"depth": ["Too big."]}, "non_field_errors": ["No."]})
    )
    assert failure.message == "name: Required. limits.depth: Too big. No."
    body = errors.error_body(failure)
    assert body["meta"]["code"] == "invalid_input"
    assert body["meta"]["fields"]["limits.depth"] == ["Too big."]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"nul", b"\xff", b'{"a": NaN}', b"[" * 100_000, b"9" * 10_000, b'"\xed\xa0\x80"']
)
def test_malformed_json_is_a_parse_error(body):
    with pytest.raises(ParseError):
        parse_json(body)


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_json_nested_too_deeply_is_a_parse_error(opening, closing):
    def nested(levels):
        return opening * levels + b"1" + closing * levels

    assert parse_json(b'{"many": [' + b"[]," * 500 + nested(MOST_LEVELS - 2) + b"]}")
    with pytest.raises(ParseError, match="levels deep"):
        parse_json(nested(MOST_LEVELS + 1))


def test_json_with_any_unicode_text_is_parsed():
    assert parse_json('{"text": "naïve ☃ 😀"}'.encode()) == {"text": "naïve ☃ 😀"}


@pytest.mark.parametrize("raw", ["a", "req-1:2.3_4", "x" * 128])
def test_plain_request_ids_are_kept(raw):
    assert request_id_from(raw) == raw


@pytest.mark.parametrize("raw", [None, "", "x" * 129, "a b", "a\nb", "ä", "<script>", "a\n"])
def test_other_request_ids_are_replaced(raw):
    made = request_id_from(raw)
    assert made != raw
    assert request_id_from(made) == made


def test_only_listed_origins_are_allowed_and_never_with_cookies():
    allowed = ["https://app.example.org"]
    headers = cors_headers("https://app.example.org", allowed, preflight=True)
    assert headers["Access-Control-Allow-Origin"] == "https://app.example.org"
    assert "Idempotency-Key" in headers["Access-Control-Allow-Headers"]
    assert "Access-Control-Allow-Credentials" not in headers
    for other in ("", "null", "https://evil.example.org", "https://app.example.org.evil.org", "http://app.example.org"):
        assert "Access-Control-Allow-Origin" not in cors_headers(other, allowed, preflight=False)
    assert cors_headers("https://app.example.org", [], preflight=False) == {}
