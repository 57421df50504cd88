"""The base class of HTTP consumers: it behaves like Django's middleware and the views."""

import asyncio
import logging

import pytest

from audit_app.kernel import context
from audit_app.kernel.errors import NotFound
from sessions_app.identity import access_tokens
from sessions_app.identity.api_keys import create_api_key
from sessions_app.surfaces.base.consumers import LiveConsumer
from sessions_app.surfaces.rest import envelope
from tests.support.rest import LiveCaller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


class Sample(LiveConsumer):
    """A consumer that echoes; `fail` raises, `wait` never ends."""

    methods = ("POST", "GET")
    waiting = asyncio.Event()
    cancelled: list[str] = []

    async def respond(self, body: bytes) -> None:
        if body == b'"not found"':
            raise NotFound("There is no such thing.")
        if body == b'"broken"':
            raise RuntimeError("password=hunter2")
        if body == b'"wait"':
            await self._wait_for_ever()
        if body == b'"late"':
            await self.send_headers(status=200, headers={"X-Own": "1"})
            raise RuntimeError("too late")
        await self.send_json(200, envelope.success({"body": body.decode(), **context.current()}))

    async def _wait_for_ever(self) -> None:
        try:
            self.waiting.set()
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(self.principal.actor)
            raise


APPLICATION = Sample.as_asgi()


@pytest.fixture
def caller(alice):
    return LiveCaller(APPLICATION, bearer=access_tokens.open_login(alice).access)


async def test_an_admitted_request_has_its_principal_and_request_id_bound(caller, alice):
    answer = await caller("POST", "/api/x", {"a": 1}, X_Request_Id="req-7")
    assert answer.status == 200
    assert answer.data == {"body": '{"a": 1}', "request_id": "req-7", "actor": f"user:{alice.pk}"}
    assert answer.headers["x-request-id"] == "req-7"
    assert answer.headers["cache-control"] == "no-store"
    assert context.current() == {"actor": "system"}


async def test_a_bad_request_id_is_replaced(caller):
    answer = await caller("POST", "/api/x", 1, X_Request_Id="a b")
    assert answer.headers["x-request-id"] == answer.data["request_id"] != "a b"


@pytest.mark.parametrize("bearer", ["", "x", "sk-user-x"])
async def test_a_request_without_credential_is_401(bearer):
    answer = await LiveCaller(APPLICATION, bearer=bearer)("POST", "/api/x", 1)
    assert answer.status == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")


async def test_a_wrong_method_is_405_and_a_form_is_415(caller):
    answer = await caller("DELETE", "/api/x")
    assert (answer.status, answer.headers["allow"]) == (405, "POST, GET")
    assert (await caller("POST", "/api/x", 1, Content_Type="text/plain")).status == 415


async def test_a_foreign_host_is_400(caller):
    assert (await caller("POST", "/api/x", 1, Host="evil.example.org")).status == 400


async def test_a_body_over_the_limit_is_413_before_it_is_complete(caller, settings):
    settings.KOMAND_MAX_BODY_BYTES = 100
    assert (await caller("POST", "/api/x", parts=[b"x" * 60, b"x" * 60, b"never read"])).status == 413


async def test_a_body_in_parts_is_joined(caller):
    assert (await caller("POST", "/api/x", parts=[b'"a', b"b", b'c"'])).data["body"] == '"abc"'


async def test_errors_have_the_body_of_the_surface_and_no_details(caller, caplog):
    answer = await caller("POST", "/api/x", "not found")
    assert (answer.status, answer.error) == (404, "There is no such thing.")
    broken = await caller("POST", "/api/x", "broken")
    assert broken.status == 500
    assert "hunter2" not in broken.error
    assert "RuntimeError" in caplog.text


async def test_an_error_after_the_first_byte_ends_the_body(caller):
    answer = await caller("POST", "/api/x", "late")
    assert answer.status == 200
    assert answer.headers["x-own"] == "1"
    assert [message["type"] for message in caller.sent] == ["http.response.start", "http.response.body"]


async def test_requests_are_limited_by_user(caller, settings):
    settings.KOMAND_API_LIMIT = 1
    assert (await caller("POST", "/api/x", 1)).status == 200
    refused = await caller("POST", "/api/x", 1)
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1


async def test_a_disconnect_cancels_the_response(caller, alice):
    Sample.waiting, Sample.cancelled = asyncio.Event(), []
    asking = asyncio.ensure_future(caller("POST", "/api/x", "wait"))
    await Sample.waiting.wait()
    caller.leave()
    assert (await asking).status == 0
    assert Sample.cancelled == [f"user:{alice.pk}"]


@pytest.fixture
def read_only_key(alice):
    return create_api_key(alice, "reader", scopes=["read"]).key


async def test_a_read_only_key_may_get_but_not_post(read_only_key):
    caller = LiveCaller(APPLICATION, bearer=read_only_key)
    assert (await caller("GET", "/api/x")).status == 200
    assert (await caller("POST", "/api/x", 1)).status == 403


@pytest.fixture
def cookie(alice, client, settings):
    client.force_login(alice)
    return f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"


async def test_a_page_session_needs_its_csrf_token(cookie, settings):
    caller = LiveCaller(APPLICATION)
    assert (await caller("GET", "/api/x", Cookie=cookie)).status == 200
    assert (await caller("POST", "/api/x", 1, Cookie=cookie)).status == 403
    with_token = f"{cookie}; {settings.CSRF_COOKIE_NAME}={'a' * 32}"
    assert (await caller("POST", "/api/x", 1, Cookie=with_token, X_CSRFToken="a" * 32)).status == 200


async def test_listed_origins_get_their_preflight_and_headers_and_others_none(caller, settings):
    settings.KOMAND_CORS_ORIGINS = ["https://app.example.org"]
    headers = {"Origin": "https://app.example.org", "Access_Control_Request_Method": "POST"}
    preflight = await caller("OPTIONS", "/api/x", **headers)
    assert preflight.status == 204
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    answer = await caller("POST", "/api/x", 1, Origin="https://app.example.org")
    assert answer.headers["access-control-allow-origin"] == "https://app.example.org"
    assert "access-control-allow-origin" not in (await caller("POST", "/api/x", 1, Origin="https://evil.org")).headers


async def test_the_access_log_has_one_line_without_query_or_token(caller, caplog):
    with caplog.at_level(logging.INFO, logger="komand.access"):
        await caller("POST", "/x?token=secret", 1)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "komand.access"]
    assert line.startswith("POST /x 200 ")
