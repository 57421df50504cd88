"""Signed URLs of files: bound to the login or key that requested them, and to the reader who uses them first."""

from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client

from sessions_app import services
from sessions_app.identity import access_tokens, api_keys
from sessions_app.models import Session
from tools_app.storage import artifacts

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey", "default_agent"), pytest.mark.one_database]

READER = {"REMOTE_ADDR": "203.0.113.7", "HTTP_USER_AGENT": "Firefox"}


@pytest.fixture
def session(alice: User) -> Session:
    opened = services.open_session(owner=alice)
    artifacts.write_artifact(artifacts.Writer(opened.id), "files/a.txt", b"0123456789", media_type="text/plain")
    return opened


def signed(session: Session, bearer: str, **query: str) -> str:
    answer = Client().get(
        f"/api/v1/agents/{session.id}/artifacts/files/a.txt",
        {"url": "1", **query},
        headers={"Authorization": f"Bearer {bearer}"},
    )
    assert answer.status_code == 200
    return urlsplit(answer.json()["url"]).path


def fetch(url: str, **more: str) -> int:
    return Client().get(url, **{**READER, **more}).status_code


def test_one_reader_repeats_a_download_and_asks_for_ranges(alice, session):
    url = signed(session, access_tokens.open_login(alice).access)
    assert [fetch(url), fetch(url, HTTP_RANGE="bytes=2-4"), fetch(url)] in ([200, 200, 200], [200, 206, 200])


@pytest.mark.parametrize("other", [{"REMOTE_ADDR": "198.51.100.9"}, {"HTTP_USER_AGENT": "curl"}])
def test_another_reader_cannot_use_the_url_again(alice, session, other):
    url = signed(session, access_tokens.open_login(alice).access)
    assert [fetch(url), fetch(url, **other), fetch(url)] == [200, 403, 200]


def test_each_url_has_a_reader_of_its_own(alice, session):
    bearer = access_tokens.open_login(alice).access
    assert fetch(signed(session, bearer)) == fetch(signed(session, bearer), REMOTE_ADDR="198.51.100.9") == 200


def test_a_url_ends_with_the_login_that_requested_it(alice, session):
    pair = access_tokens.open_login(alice)
    url = signed(session, pair.access)
    assert fetch(url) == 200
    access_tokens.close_login(pair.refresh)
    assert fetch(url) == 403


def test_a_url_ends_with_the_key_that_requested_it(alice, session):
    made = api_keys.create_api_key(alice, "k", scopes=["agent_messages"])
    token = Client().post("/token/issue", headers={"Authorization": f"Bearer {made.key}"}).json()["token"]
    urls = [signed(session, made.key), signed(session, token)]
    assert [fetch(url) for url in urls] == [200, 200]
    api_keys.revoke_api_key(alice, made.row.pk)
    assert [fetch(url) for url in urls] == [403, 403]


def test_a_url_ends_with_the_password_and_with_the_session(alice, session):
    bearer = access_tokens.open_login(alice).access
    first = signed(session, bearer)
    services.delete_session(session)
    assert fetch(first) == 403
    other = services.open_session(owner=alice)
    artifacts.write_artifact(artifacts.Writer(other.id), "files/a.txt", b"x", media_type="text/plain")
    second = signed(other, bearer)
    alice.set_password("another-secret")
    alice.save()
    assert fetch(second) == 403


def test_tokens_for_other_purposes_are_no_urls(alice, session):
    bearer = access_tokens.open_login(alice).access
    url = signed(session, bearer)
    assert fetch(url.replace(url.split("/")[4], bearer)) == 403


def test_a_ticket_cannot_be_exchanged_for_something_that_lives_longer(alice):
    bearer = access_tokens.open_login(alice).access
    for path in ("/token/issue", "/api/auth/ticket"):
        made = Client().post("/api/auth/ticket", headers={"Authorization": f"Bearer {bearer}"})
        ticket = made.json()["data"]["ticket"]
        answer = Client().post(path, headers={"Authorization": f"Bearer {ticket}"})
        assert answer.status_code == 400 and "exchanged" in answer.content.decode()
