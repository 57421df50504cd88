import logging
from typing import Any

import pytest
from asgiref.sync import SyncToAsync
from django.contrib.auth import BACKEND_SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client
from pytest_django.fixtures import Settings

from komand import asgi
from komand.logs import JsonFormatter, TextFormatter
from sessions_app.identity import invitations
from tests.support.built_statements import built_statements
from tests.support.rest import LiveCaller
from tests.support.webchat import add_web

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def test_the_caller_s_request_id_comes_back(client: Client) -> None:
    assert client.get("/health", headers={"X-Request-Id": "abc-1.2:3"}).headers["X-Request-Id"] == "abc-1.2:3"


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, "a\tb", "<script>", "ä"])
def test_a_request_id_that_could_do_harm_is_replaced(client: Client, sent: str) -> None:
    made = client.get("/health", headers={"X-Request-Id": sent}).headers["X-Request-Id"]
    assert made and made != sent and made.isalnum()


def test_one_access_line_carries_id_actor_and_no_query(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.force_login(User.objects.create_user("alice"))
    with caplog.at_level(logging.INFO, logger="komand.access"):
        client.get("/login?next=/secret-place", headers={"X-Request-Id": "r-1"})
    (record,) = [record for record in caplog.records if record.name == "komand.access"]
    assert record.getMessage().startswith("GET /login ") and "secret-place" not in record.getMessage()


def test_the_token_of_an_invitation_is_masked_in_the_access_log(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    user = User.objects.create_user("bob")
    token = invitations.invite(user)
    with caplog.at_level(logging.INFO, logger="komand.access"):
        assert client.get(f"/login/invitation/{token}").status_code == 200
    (record,) = [record for record in caplog.records if record.name == "komand.access"]
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(record)
        assert "GET /login/invitation/••• 200" in line and token not in line


def test_health_probes_come_by_address_and_everything_else_by_name(client: Client) -> None:
    assert client.get("/health/live", headers={"Host": "10.1.2.3:8000"}).status_code == 200
    assert client.get("/login", headers={"Host": "10.1.2.3:8000"}).status_code == 400


def test_pages_have_a_strict_policy(client: Client) -> None:
    policy = client.get("/login").headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy


def test_the_admin_s_policy_lets_its_theme_work_and_no_more(client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    policy = client.get("/admin/").headers["Content-Security-Policy"]
    assert "script-src 'self' 'unsafe-eval'" in policy and "script-src 'self' 'unsafe-inline'" not in policy
    assert "default-src 'self'" in policy


def test_pages_deny_what_they_do_not_use(client: Client) -> None:
    client.force_login(User.objects.create_superuser("root"))
    add_web("site")
    for page in ("/login", "/account", "/admin/", "/webchat/site/widget"):
        response = client.get(page, follow=True)
        policy = response.headers["Permissions-Policy"].split(", ")
        assert response.status_code == 200 and {"camera=()", "microphone=()", "geolocation=()"} <= {*policy}, page
        assert not [entry for entry in policy if entry.startswith("clipboard-write")], "the pages copy answers"
    assert "Permissions-Policy" not in client.get("/health").headers


def test_static_files_are_found_without_collecting_them(client: Client) -> None:
    found = client.get("/static/django_htmx/htmx-2.min.js")
    assert found.status_code == 200 and len(found.content) > 10_000
    assert found.headers["Content-Type"].startswith("text/javascript")
    assert client.get(
        "/static/django_htmx/htmx-2.min.js", headers={"If-None-Match": found.headers["ETag"]}
    ).status_code in (200, 304)


def test_static_files_answer_parts(client: Client) -> None:
    part = client.get("/static/django_htmx/htmx-2.min.js", headers={"Range": "bytes=0-9"})
    assert part.status_code == 206 and len(part.content) == 10


def test_another_origin_is_let_in_only_when_listed(client: Client, settings: Settings) -> None:
    settings.KOMAND_CORS_ORIGINS = ["https://app.example"]
    mine = client.get("/api/agents", headers={"Origin": "https://app.example"})
    other = client.get("/api/agents", headers={"Origin": "https://evil.example"})
    assert mine.headers["Access-Control-Allow-Origin"] == "https://app.example"
    assert "Access-Control-Allow-Origin" not in other.headers


def test_a_preflight_is_answered_without_login(client: Client, settings: Settings) -> None:
    settings.KOMAND_CORS_ORIGINS = ["https://app.example"]
    headers = {"Origin": "https://app.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/agents", headers=headers)
    assert answer.status_code == 204 and "POST" in answer.headers["Access-Control-Allow-Methods"]


@pytest.mark.parametrize(
    ("path", "host", "status"), [("/api/nothing", "localhost", 404), ("/api/agents", "evil.example", 400)]
)
def test_errors_under_api_keep_its_envelope(client: Client, path: str, host: str, status: int) -> None:
    answer = client.get(path, headers={"Host": host})
    assert answer.status_code == status and answer.json()["success"] is False and answer.json()["error"]


def test_errors_elsewhere_are_pages(client: Client) -> None:
    answer = client.get("/nothing")
    assert answer.status_code == 404 and answer.headers["Content-Type"].startswith("text/html")


@pytest.mark.django_db(transaction=True)
async def test_a_page_is_made_in_one_call_of_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """And ends in another one, which closes its connections."""
    calls, call = list[Any](), SyncToAsync.thread_handler

    def count(self: SyncToAsync[..., Any], *args: Any, **kwargs: Any) -> Any:
        calls.append(self.func)
        return call(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "thread_handler", count)
    caller = LiveCaller(asgi.django_application)
    await caller.ask("GET", "/login")
    calls.clear()
    status, page = await caller.ask("GET", "/login")
    assert status == 200 and "<form" in page
    of_page = [func for func in calls if func.__name__ != "sync_send"]  # a receiver that the test client connects
    assert len(of_page) <= 2, of_page


def _log_in(client: Client) -> User:
    user = User.objects.create_user("alice", password="first")
    client.force_login(user, "django.contrib.auth.backends.ModelBackend")
    return user


def _is_logged_in(client: Client) -> bool:
    return client.get("/").headers["Location"].startswith("/chat/")


def test_the_user_of_a_browser_is_read_by_a_compiled_statement(client: Client) -> None:
    _log_in(client)
    assert _is_logged_in(client)
    with built_statements() as built:
        assert _is_logged_in(client)
    assert not [sql for sql in built if 'FROM "auth_user"' in sql], built


@pytest.mark.parametrize("change", ["password", "is_active", "deleted", "backend"])
def test_a_browser_session_that_is_not_valid_any_more_has_no_user(client: Client, change: str) -> None:
    user = _log_in(client)
    assert _is_logged_in(client)
    if change == "password":
        user.set_password("second")
    elif change == "is_active":
        user.is_active = False
    elif change == "backend":
        session = client.session
        session[BACKEND_SESSION_KEY] = "nowhere.Backend"
        session.save()
    user.save()
    if change == "deleted":
        user.delete()
    assert not _is_logged_in(client)


def test_a_browser_session_outlives_a_new_secret_key_beside_the_old_one(client: Client, settings: Settings) -> None:
    _log_in(client)
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of the installation, as long as the first"
    assert _is_logged_in(client)
    settings.SECRET_KEY_FALLBACKS = []
    assert _is_logged_in(client)  # its digest has been made anew
