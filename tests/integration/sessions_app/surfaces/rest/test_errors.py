"""Errors under /api: each has the envelope, its status, and no internal details."""

import pytest
from django.db import OperationalError

from sessions_app import selectors
from tests.support.rest import RestCaller, make_user

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


@pytest.mark.parametrize("path", ["", "nothing", "sessions/", "agents/a/b", "auth/login/x", "webchat", "%00"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_unknown_urls_are_404_without_login(method, path):
    assert RestCaller()(method, path).status == 404


@pytest.mark.parametrize(("method", "path"), [("PUT", "sessions"), ("PATCH", "agents/default"), ("GET", "auth/login")])
def test_a_wrong_method_is_405_with_the_allowed_methods(author, method, path):
    answer = author(method, path)
    assert answer.status == 405
    assert method not in answer.headers["Allow"]


@pytest.mark.parametrize(
    "content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
)
def test_a_body_of_another_media_type_is_415(author, content_type):
    assert author("POST", "agents", b'{"agentId": "x"}', Content_Type=content_type).status == 415


@pytest.mark.parametrize("body", [b"{", b"\xff\xfe", b"[" * 100_000, b'{"name": NaN}'])
def test_malformed_json_is_400(author, body):
    answer = author("POST", "agents", body)
    assert (answer.status, answer.meta["code"]) == (400, "malformed_json")


def test_an_oversized_body_is_413(author, settings):
    settings.KOMAND_MAX_BODY_BYTES = 1000
    assert author("POST", "agents", b'{"a": "%s"}' % (b"x" * 1000)).status == 413


def test_any_accept_header_gets_json(author):
    assert author.get("sessions", Accept="text/html").status == 200
    assert author.get("sessions?format=xml").status == 200


def test_requests_over_the_limit_are_429_for_that_user_only(author, settings):
    settings.KOMAND_API_LIMIT = 2
    answers = [author.get("sessions") for _ in range(3)]
    assert [a.status for a in answers] == [200, 200, 429]
    assert 1 <= int(answers[2].headers["Retry-After"]) <= 60
    assert RestCaller(make_user("bob")).get("sessions").status == 200


def test_an_unexpected_error_is_a_500_without_details(author, monkeypatch, caplog):
    def broken(*args, **kwargs):
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(selectors, "list_sessions", broken)
    answer = author.get("sessions")
    assert answer.status == 500
    assert "hunter2" not in answer.error
    assert "RuntimeError" in caplog.text


def test_an_unreachable_database_is_a_503(author, monkeypatch):
    def away(*args, **kwargs):
        raise OperationalError("could not connect to server at 10.0.0.7")

    monkeypatch.setattr(selectors, "list_sessions", away)
    answer = author.get("sessions")
    assert answer.status == 503
    assert "10.0.0.7" not in answer.error


def test_answers_are_not_cached_and_have_the_request_id(author):
    answer = author.get("sessions", X_Request_Id="my-request.1")
    assert answer.headers["X-Request-Id"] == "my-request.1"
    assert answer.headers["Cache-Control"] == "no-store"
