"""`http_request`: allowed hosts only, with credentials that nobody can read."""

import base64
import json
from uuid import uuid4

import pytest

from tests.integration.tools_app.web_servers import answer, redirect, web_server
from tools_app.builtin.http_request import HttpRequest
from tools_app.network.http_request import MAX_BYTES, allows
from tools_app.secrets import credentials
from tools_app.types import Effect, Risk, ToolContext, ToolError

pytestmark = [pytest.mark.django_db, pytest.mark.one_database]

TOOL = HttpRequest()
SECRET = "sk-very-secret-value-1234567890"


def mirror(connection, path, headers):
    """Return the request as the response."""
    answer(json.dumps({"path": path, "headers": headers}), content_type="application/json")(connection, path, headers)


@pytest.fixture
def serve(settings):
    """Start a private server that may be reached unless `hosts` excludes it."""
    managers = []

    def start(answers, *, hosts=None):
        manager = web_server(answers)
        server = manager.__enter__()
        managers.append(manager)
        settings.KOMAND_FETCH_ALLOW_PRIVATE = [server.pair]
        settings.KOMAND_HTTP_REQUEST_HOSTS = [server.pair] if hosts is None else hosts
        return server

    yield start
    for manager in managers:
        manager.__exit__(None, None, None)


def call(url, *, actor="user:1", seconds=10, **arguments):
    context = ToolContext(
        execution_id=uuid4(),
        run_id=uuid4(),
        session_id=uuid4(),
        agent_id="default",
        actor=actor,
        effect_key="effect-key-7",
        timeout_seconds=seconds,
    )
    return TOOL.run({"url": url, **arguments}, context)


@pytest.mark.parametrize(
    ("allowed", "host", "port", "is_allowed"),
    [
        ("api.example.com", "api.example.com", 443, True),
        ("api.example.com", "api.example.com", 80, True),
        ("api.example.com:8443", "api.example.com", 443, False),
        ("api.example.com:8443", "api.example.com", 8443, True),
        ("*.example.com", "a.b.example.com", 443, True),
        ("*.example.com", "example.com", 443, False),
        ("*.example.com", "badexample.com", 443, False),
        ("example.com", "evil.example.com", 443, False),
        ("example.com", "example.com.evil.test", 443, False),
        ("*", "anything", 443, False),
    ],
)
def test_only_the_hosts_that_are_named_are_allowed(allowed, host, port, is_allowed):
    assert allows([allowed], host, port) is is_allowed


def test_an_api_is_called_and_its_response_returned(serve):
    server = serve({"/a": mirror})
    result = call(f"http://{server.pair}/a?x=1", method="POST", headers={"X-Thing": "7"}, body='{"a": 1}')
    sent = json.loads(result["body"])
    assert (result["status"], result["encoding"], result["headers"]["content-type"]) == (
        200,
        "text",
        "application/json",
    )
    assert (sent["path"], sent["headers"]["x-thing"], sent["headers"]["content-length"]) == ("/a?x=1", "7", "8")
    assert sent["headers"]["user-agent"].startswith("Komand")


def test_a_host_that_is_not_allowed_gets_no_packet(serve):
    server = serve({"/": answer("x")}, hosts=["api.example.com"])
    with pytest.raises(ToolError, match="not among the allowed hosts"):
        call(f"http://{server.pair}/")
    assert server.connections == 0


def test_an_allowed_host_that_is_private_is_still_refused(serve, settings):
    server = serve({"/": answer("x")})
    settings.KOMAND_FETCH_ALLOW_PRIVATE = []
    with pytest.raises(ToolError, match="not a public address"):
        call(f"http://{server.pair}/")
    assert server.connections == 0


def test_a_redirect_is_returned_not_followed(serve):
    server = serve({"/a": redirect("http://elsewhere.example/")})
    result = call(f"http://{server.pair}/a")
    assert (result["status"], result["headers"]["location"]) == (302, "http://elsewhere.example/")
    assert len(server.requests) == 1


@pytest.fixture
def credential(django_user_model):
    user = django_user_model.objects.create_user("owner")
    credentials.store_credential("API_KEY", SECRET, owner_id=user.pk, hosts=["127.0.0.1"])
    return user


def test_a_credential_is_put_in_and_comes_back_masked(serve, credential):
    server = serve({"/": mirror})
    headers = {"Authorization": "Bearer {{credential:API_KEY}}"}
    result = call(f"http://{server.pair}/", headers=headers, actor=f"user:{credential.pk}")
    assert server.requests[0][1]["authorization"] == f"Bearer {SECRET}"
    assert SECRET not in json.dumps(result)


@pytest.mark.parametrize("actor", ["user:999999", "sender:Telegram:1", "system", "user:x"])
def test_nobody_uses_the_credential_of_somebody_else(serve, credential, actor):
    server = serve({"/": mirror})
    with pytest.raises(ToolError, match="[Cc]redential"):
        call(f"http://{server.pair}/", headers={"X": "{{credential:API_KEY}}"}, actor=actor)
    assert server.connections == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil"},
        {"Content-Length": "1"},
        {"Transfer-Encoding": "chunked"},
        {"a b": "c"},
        {"x": "a\r\nY: b"},
        {"x": "ü"},
        {"": "x"},
        {"Proxy-Authorization": "x"},
    ],
)
def test_reserved_and_malformed_headers_are_refused(serve, headers):
    server = serve({"/": mirror})
    with pytest.raises(ToolError):
        call(f"http://{server.pair}/", headers=headers)
    assert server.connections == 0


def test_an_idempotency_key_is_the_same_at_each_repetition(serve):
    server = serve({"/": mirror})
    for _ in range(2):
        call(f"http://{server.pair}/", method="POST", idempotency_key=True)
    assert [headers["idempotency-key"] for _, headers in server.requests] == ["effect-key-7"] * 2
    call(f"http://{server.pair}/", idempotency_key=True)
    assert "idempotency-key" not in server.requests[2][1]


@pytest.mark.parametrize(
    ("arguments", "risk", "effect"),
    [
        ({}, Risk.LOW, Effect.READ),
        ({"method": "HEAD"}, Risk.LOW, Effect.READ),
        ({"headers": {"authorization": "x"}}, Risk.MEDIUM, Effect.READ),
        ({"method": "POST"}, Risk.HIGH, Effect.ONCE),
        ({"method": "DELETE", "idempotency_key": True}, Risk.HIGH, Effect.KEYED),
    ],
)
def test_risk_and_effect_go_by_the_method(arguments, risk, effect):
    assert (TOOL.risk_of({"url": "u", **arguments}), TOOL.effect_of({"url": "u", **arguments})) == (risk, effect)


def test_other_bytes_come_as_base64_and_much_is_cut(serve):
    server = serve(
        {
            "/b": answer(bytes(range(256)), content_type="image/png"),
            "/long": answer(b"a" * (MAX_BYTES + 5), content_type="text/plain"),
        }
    )
    picture = call(f"http://{server.pair}/b")
    assert (picture["encoding"], base64.b64decode(picture["body"])) == ("base64", bytes(range(256)))
    long = call(f"http://{server.pair}/long", max_characters=100)
    assert (len(long["body"]), long["truncated"], long["bytes"]) == (100, True, MAX_BYTES)
