"""Authorization of MCP servers by OAuth: through the admin, with a real authorization server and MCP server."""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.db.models import F
from django.test import Client
from django.utils import timezone

from audit_app.models import AuditEntry
from tests.fakes.http_server import Fault
from tests.fakes.mcp.authorized import Pair
from tests.support.mcp import Caller, LoopThread
from tests.support.rest import RestCaller
from tools_app.mcp_client import discovery, server_authorization, servers
from tools_app.mcp_client.errors import NeedsAuthorization, ServerFault
from tools_app.models import McpAuthorization, McpAuthorizationAttempt, McpServer
from tools_app.network import ssrf_guard
from tools_app.secrets import credentials
from tools_app.types import ToolError

pytestmark = pytest.mark.django_db(transaction=True)

PAGE = "/admin/tools_app/mcpserver/"
CALLBACK = f"{PAGE}callback/"
YES = {"_form_submitted": "True"}
SECRETS = ("access-", "refresh-", "secret-of-")


@pytest.fixture
def pair(settings: Any) -> Iterator[Pair]:
    with Pair() as pair:
        settings.KOMAND_CALLBACK_ALLOW_PRIVATE = [pair.authorization.address]
        yield pair


@pytest.fixture
def server(pair: Pair) -> McpServer:
    return servers.add_server(name="files", transport="streamable_http", url=pair.protected.resource)


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture
def caller(loop: LoopThread, server: McpServer, pages: Client, pair: Pair) -> Iterator[Caller]:
    """Return an open connection with a token of an authorization that was completed."""
    authorize(pages, server, pair)
    caller = Caller(loop, servers.config_of(server)).open()
    yield caller
    caller.close()


def press(pages: Client, server: McpServer, button: str = "authorize") -> Any:
    return pages.post(f"{PAGE}{server.pk}/{button}/", YES)


def authorize(pages: Client, server: McpServer, pair: Pair, **changed: str | None) -> str:
    """Authorize as a person does, and return the page on which they end. changed: parameters of the callback."""
    sent = press(pages, server)
    assert sent.status_code == 302, sent.content
    back = pair.authorization.approve(sent["Location"], **changed)
    shown: str = pages.get(back, follow=True).content.decode()
    return shown


def state_of(server: McpServer) -> str:
    return McpServer.objects.get(pk=server.pk).state


def audited(action: str) -> list[Any]:
    return [entry.details for entry in AuditEntry.objects.filter(action=action).order_by("id")]


def age(server: McpServer, **since: int) -> None:
    """Let the tokens have been issued, and end, so much earlier."""
    earlier = {name: F(name) - timedelta(**since) for name in ("refreshed_at", "expires_at")}
    McpAuthorization.objects.filter(server=server).update(**earlier)


def test_a_server_that_demands_authorization_says_so_everywhere(server: McpServer, pages: Client) -> None:
    shown = pages.post(f"{PAGE}{server.pk}/refresh/", YES, follow=True).content.decode()
    assert "an operator has to press Authorize" in shown and "needs authorization" in shown
    assert state_of(server) == "needs_authorization"
    discovery_again = pages.post(f"{PAGE}{server.pk}/refresh/", YES)
    assert discovery_again.status_code == 302
    assert len(audited("McpServerNeedsAuthorization")) == 1, "it is audited once, not at each attempt"
    assert "needs authorization" in pages.get(PAGE).content.decode()


def test_the_model_is_told_what_is_missing(server: McpServer, loop: LoopThread) -> None:
    with pytest.raises(NeedsAuthorization) as caught:
        Caller(loop, servers.config_of(server)).open()
    error = str(caught.value.as_tool_error("files"))
    assert "needs authorization" in error and "press Authorize" in error


def test_a_person_authorizes_and_the_tools_can_be_called(server: McpServer, pages: Client, pair: Pair) -> None:
    sent = press(pages, server)
    asked = {name: value[0] for name, value in parse_qs(urlsplit(sent["Location"]).query).items()}
    assert asked["code_challenge_method"] == "S256" and len(asked["code_challenge"]) == 43
    assert (asked["resource"], asked["scope"]) == (pair.protected.resource, "files:read")
    assert asked["redirect_uri"] == f"http://testserver{CALLBACK}"
    shown = pages.get(pair.authorization.approve(sent["Location"]), follow=True).content.decode()
    assert "files is authorized." in shown and "2 tools are listed." in shown
    assert pair.authorization.url in shown and "rights: files:read" in shown
    assert state_of(server) == "ok"
    assert sorted(tool.name for tool in server.tools.all()) == ["read", "write"]
    [entry] = audited("McpServerAuthorized")
    assert (entry["name"], entry["issuer"]) == ("files", pair.authorization.url)
    [client] = pair.authorization.clients.values()
    assert client["redirect_uris"] == [f"http://testserver{CALLBACK}"] and client["client_name"] == "Komand"
    [form] = pair.authorization.forms["/token"]
    assert form["resource"] == pair.protected.resource


def test_a_server_that_greets_strangers_is_asked_what_it_demands(server: McpServer, pages: Client, pair: Pair) -> None:
    pair.protected.greets_strangers = True
    assert parse_qs(urlsplit(press(pages, server)["Location"]).query)["scope"] == ["files:read"]


def test_a_connection_sends_the_token_and_keeps_it(caller: Caller, pair: Pair) -> None:
    assert caller.call("read") == "read done"
    assert [call.token for call in pair.protected.calls] == ["access-1-0123456789"]
    assert len(pair.authorization.forms["/token"]) == 1


def test_the_client_of_an_earlier_authorization_is_used_again(server: McpServer, pages: Client, pair: Pair) -> None:
    authorize(pages, server, pair)
    authorize(pages, server, pair)
    assert len(pair.authorization.clients) == 1
    pages.defaults["HTTP_HOST"] = "localhost"
    press(pages, server)
    assert len(pair.authorization.clients) == 2, "at another address of this installation it is another client"


def test_a_client_of_the_operator_is_used(server: McpServer, pages: Client, pair: Pair) -> None:
    credentials.store_credential("FILES", "secret-of-mine", owner_id=None)
    pair.authorization.clients["mine"] = {"client_secret": "secret-of-mine"}
    pair.authorization.metadata["registration_endpoint"] = None
    assert (
        "registers no clients by itself"
        in pages.post(f"{PAGE}{server.pk}/authorize/", YES, follow=True).content.decode()
    )
    servers.change_server(server, oauth_client_id="mine", oauth_client_secret="{{credential:FILES}}")
    assert "files is authorized." in authorize(pages, server, pair)
    assert [form["client_id"] for form in pair.authorization.forms["/token"]] == ["mine"]


@pytest.mark.parametrize(("address", "is_readable"), [("203.0.114.7", True), ("10.1.2.3", False)])
def test_the_metadata_document_is_the_client_where_others_can_read_it(
    server: McpServer, pages: Client, pair: Pair, settings: Any, monkeypatch: Any, address: str, is_readable: bool
) -> None:
    settings.KOMAND_PUBLIC_URL, settings.ALLOWED_HOSTS = "https://komand.example.com", ["*"]
    monkeypatch.setattr(ssrf_guard, "_look_up", lambda *_: [ip_address(address)])
    pair.authorization.metadata["client_id_metadata_document_supported"] = True
    assert "files is authorized." in authorize(pages, server, pair)
    document = Client().get("/oauth/mcp-client.json").json()
    assert document["redirect_uris"] == [f"https://komand.example.com{CALLBACK}"]
    [form] = pair.authorization.forms["/token"]
    assert form["client_id"] == (document["client_id"] if is_readable else "client-1")


def test_an_installation_without_https_has_no_metadata_document() -> None:
    assert Client().get("/oauth/mcp-client.json").status_code == 404


@pytest.mark.parametrize("secret", ["plain", "Bearer {{credential:X}}"])
def test_a_secret_of_a_client_is_a_reference(server: McpServer, secret: str) -> None:
    with pytest.raises(Exception, match="must be a reference to a credential"):
        servers.change_server(server, oauth_client_id="mine", oauth_client_secret=secret)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"state": "another"}, "is not known here"),
        ({"state": None}, "is not known here"),
        ({"iss": "https://evil.example"}, "another authorization server"),
        ({"iss": None}, "another authorization server"),
        ({"code": "another"}, "refused a token (invalid_grant)"),
        ({"code": None, "error": "access_denied"}, "The authorization was refused (access_denied)"),
    ],
)
def test_a_callback_that_does_not_fit_is_refused(
    server: McpServer, pages: Client, pair: Pair, changed: dict[str, Any], expected: str
) -> None:
    assert expected in authorize(pages, server, pair, **changed)
    assert not McpAuthorization.objects.exclude(tokens_sealed="").exists()
    assert not audited("McpServerAuthorized") and len(audited("McpAuthorizationFailed")) == 1


def test_a_server_that_announces_no_iss_may_leave_it_out(server: McpServer, pages: Client, pair: Pair) -> None:
    pair.authorization.iss = None
    assert "files is authorized." in authorize(pages, server, pair)


def test_a_callback_is_accepted_once(server: McpServer, pages: Client, pair: Pair) -> None:
    back = pair.authorization.approve(press(pages, server)["Location"])
    assert "files is authorized." in pages.get(back, follow=True).content.decode()
    assert "is not known here" in pages.get(back, follow=True).content.decode()
    assert len(pair.authorization.forms["/token"]) == 1


def test_a_callback_belongs_to_the_user_and_the_login_that_began(
    server: McpServer, pages: Client, pair: Pair, operator: User
) -> None:
    back = pair.authorization.approve(press(pages, server)["Location"])
    other = Client()
    other.force_login(User.objects.create_superuser("other", password="x"), "django.contrib.auth.backends.ModelBackend")
    assert "is not known here" in other.get(back, follow=True).content.decode()
    again = Client()
    again.force_login(operator, "django.contrib.auth.backends.ModelBackend")
    assert "is not known here" in again.get(back, follow=True).content.decode()
    assert Client().get(back).status_code == 302, "a stranger is sent to the login"
    assert "/token" not in pair.authorization.forms
    assert "files is authorized." in pages.get(back, follow=True).content.decode()


def test_a_callback_after_ten_minutes_is_refused(server: McpServer, pages: Client, pair: Pair) -> None:
    back = pair.authorization.approve(press(pages, server)["Location"])
    McpAuthorizationAttempt.objects.update(expires_at=timezone.now())
    assert "is not known here" in pages.get(back, follow=True).content.decode()
    press(pages, server)
    assert McpAuthorizationAttempt.objects.count() == 1, "those that have expired are deleted"


def test_an_address_that_was_changed_meanwhile_gets_no_token(server: McpServer, pages: Client, pair: Pair) -> None:
    back = pair.authorization.approve(press(pages, server)["Location"])
    servers.change_server(server, url="http://127.0.0.1:9/mcp")
    assert "was changed meanwhile" in pages.get(back, follow=True).content.decode()
    assert "/token" not in pair.authorization.forms


def test_tokens_are_not_sent_to_another_address(caller: Caller, server: McpServer, pair: Pair) -> None:
    with Pair() as other:
        servers.change_server(server, url=other.protected.resource)
        with pytest.raises(NeedsAuthorization):
            Caller(caller.loop, servers.config_of(server)).open()
        assert set(other.protected.tokens) == {""}


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"issuer": "https://evil.example"}, "calls itself https://evil.example"),
        ({"code_challenge_methods_supported": None}, "does not support PKCE"),
        ({"token_endpoint": "http://203.0.113.7/token"}, "does not use https"),
    ],
)
def test_metadata_of_an_authorization_server_is_checked(
    server: McpServer, pages: Client, pair: Pair, metadata: dict[str, Any], expected: str
) -> None:
    pair.authorization.metadata = metadata
    shown = pages.post(f"{PAGE}{server.pk}/authorize/", YES, follow=True).content.decode()
    assert expected in shown and not pair.authorization.clients


def test_metadata_of_another_resource_is_refused(server: McpServer, pages: Client, pair: Pair) -> None:
    pair.protected.metadata = {"resource": "https://other.example/mcp"}
    assert "is about another one" in pages.post(f"{PAGE}{server.pk}/authorize/", YES, follow=True).content.decode()
    assert not pair.authorization.seen


def test_an_authorization_server_at_an_internal_address_is_refused(
    server: McpServer, pages: Client, pair: Pair, settings: Any
) -> None:
    settings.KOMAND_CALLBACK_ALLOW_PRIVATE = []
    assert "may not be reached" in pages.post(f"{PAGE}{server.pk}/authorize/", YES, follow=True).content.decode()
    assert not pair.authorization.seen


def test_metadata_at_an_internal_address_is_refused(server: McpServer, pages: Client, pair: Pair) -> None:
    with Pair() as internal:
        pair.protected.challenge = f'resource_metadata="{internal.authorization.url}/x"'
        assert "may not be reached" in pages.post(f"{PAGE}{server.pk}/authorize/", YES, follow=True).content.decode()
        assert not internal.authorization.seen


def test_a_server_with_a_header_of_its_own_is_not_authorized(server: McpServer, pages: Client, pair: Pair) -> None:
    servers.change_server(server, headers={"authorization": "Bearer mine"})
    assert (
        "without a header Authorization"
        in pages.post(f"{PAGE}{server.pk}/authorize/", YES, follow=True).content.decode()
    )
    with pytest.raises(Exception, match="cannot be reached"):
        discovery.refresh(server)
    assert set(pair.protected.tokens) == {"mine"} and state_of(server) == "failing"


def test_a_token_is_refreshed_before_it_ends(caller: Caller, server: McpServer, pair: Pair) -> None:
    age(server, minutes=59, seconds=10)
    later = Caller(caller.loop, servers.config_of(server)).open()
    assert later.call("read") == "read done"
    assert pair.protected.calls[-1].token == "access-2-0123456789"
    assert caller.call("read") == "read done", "the token before is valid still"
    stored = server_authorization.load(server.pk, server.url)
    assert (stored.access_token, stored.refresh_token) == ("access-2-0123456789", "refresh-2-0123456789")
    assert stored.scope == "files:read"
    later.close()


def test_a_token_that_is_refused_early_is_refreshed(caller: Caller, server: McpServer, pair: Pair) -> None:
    age(server, minutes=5)
    pair.authorization.access["access-1-0123456789"].ends_at = 0
    assert caller.call("read") == "read done"
    assert pair.protected.calls[-1].token == "access-2-0123456789"


def test_a_new_token_that_is_refused_is_not_refreshed(caller: Caller, server: McpServer, pair: Pair) -> None:
    pair.authorization.access.clear()
    with pytest.raises(ToolError, match="press Authorize"):
        caller.call("read")
    assert state_of(server) == "needs_authorization" and len(pair.authorization.forms["/token"]) == 1


def test_of_many_connections_one_refreshes(caller: Caller, server: McpServer, pair: Pair) -> None:
    age(server, hours=2)
    pair.authorization.faults.append(Fault("slow", seconds=0.5, only="/token"))
    loops = [LoopThread() for _ in range(4)]
    begin = threading.Barrier(len(loops))

    def call(loop: LoopThread) -> Any:
        mine = Caller(loop, servers.config_of(McpServer.objects.get(pk=server.pk)))
        connection.close()
        begin.wait()
        try:
            return mine.open().call("read")
        finally:
            mine.close()

    with ThreadPoolExecutor(len(loops)) as pool:
        assert list(pool.map(call, loops)) == ["read done"] * len(loops)
    refreshes = [form for form in pair.authorization.forms["/token"] if form["grant_type"] == "refresh_token"]
    assert len(refreshes) == 1
    assert {called.token for called in pair.protected.calls} == {"access-2-0123456789"}
    for loop in loops:
        loop.close()


def test_a_cancelled_call_does_not_lose_the_new_refresh_token(caller: Caller, server: McpServer, pair: Pair) -> None:
    age(server, hours=2)
    pair.authorization.faults.append(Fault("slow", seconds=0.5, only="/token"))
    config = servers.config_of(server)
    assert config.tokens is not None
    waiting = caller.loop.start(config.tokens.current())
    while len(pair.authorization.forms["/token"]) < 2:
        threading.Event().wait(0.01)
    waiting.cancel()
    for _ in range(200):
        if server_authorization.load(server.pk, server.url).refresh_token == "refresh-2-0123456789":
            break
        threading.Event().wait(0.02)
    else:
        pytest.fail("the new refresh token is not stored")


def test_a_refused_refresh_needs_authorization_again(caller: Caller, server: McpServer, pair: Pair) -> None:
    age(server, hours=2)
    pair.authorization.refresh.clear()
    with pytest.raises(NeedsAuthorization):
        Caller(caller.loop, servers.config_of(server)).open()
    row = McpServer.objects.get(pk=server.pk)
    assert row.state == "needs_authorization" and "invalid_grant" in row.last_error
    [entry] = audited("McpServerNeedsAuthorization")
    assert "invalid_grant" in entry["why"] and "refresh-1" not in entry["why"] + row.last_error
    assert server_authorization.load(server.pk, server.url).access_token == ""


def test_an_authorization_server_that_is_away_loses_no_token(caller: Caller, server: McpServer, pair: Pair) -> None:
    age(server, hours=2)
    pair.authorization.faults.append(Fault("status", status=503, only="/token"))
    with pytest.raises(ServerFault, match="could not be renewed"):
        Caller(caller.loop, servers.config_of(server)).open()
    assert state_of(server) == "ok"
    again = Caller(caller.loop, servers.config_of(server)).open()
    assert again.call("read") == "read done"
    again.close()


def test_a_tool_that_demands_more_rights_is_authorized_for_them(
    caller: Caller, server: McpServer, pages: Client, pair: Pair
) -> None:
    with pytest.raises(ToolError, match=r"needs authorization for more rights \(files:write\)"):
        caller.call("write")
    assert state_of(server) == "needs_authorization"
    assert caller.call("read") == "read done", "the other tools work still"
    Caller(caller.loop, servers.config_of(server)).open().close()
    discovery.refresh(server)
    assert state_of(server) == "needs_authorization", "until somebody has authorized"
    asked = parse_qs(urlsplit(press(pages, server)["Location"]).query)
    assert asked["scope"] == ["files:read files:write"]
    authorize(pages, server, pair)
    assert state_of(server) == "ok"
    wider = Caller(caller.loop, servers.config_of(server)).open()
    assert wider.call("write") == "write done"
    wider.close()


def test_a_forgotten_authorization_is_revoked(caller: Caller, server: McpServer, pages: Client, pair: Pair) -> None:
    pages.post(f"{PAGE}{server.pk}/forget/", YES)
    assert [form["token"] for form in pair.authorization.forms["/revoke"]] == [
        "refresh-1-0123456789",
        "access-1-0123456789",
    ]
    assert not McpAuthorization.objects.exists() and audited("McpAuthorizationForgotten") == [{"name": "files"}]
    with pytest.raises(NeedsAuthorization):
        Caller(caller.loop, servers.config_of(server)).open()


@pytest.mark.parametrize("way", ["admin", "list", "command"])
def test_the_tokens_of_a_deleted_server_are_revoked(
    caller: Caller, server: McpServer, pages: Client, pair: Pair, way: str
) -> None:
    if way == "admin":
        pages.post(f"{PAGE}{server.pk}/delete/", {"post": "yes"})
    elif way == "list":
        pages.post(PAGE, {"action": "delete_selected", "_selected_action": str(server.pk), "post": "yes"})
    else:
        call_command("mcp", "remove", "files")
    assert len(pair.authorization.forms["/revoke"]) == 2
    assert not McpServer.objects.exists() and not McpAuthorization.objects.exists()


def test_a_server_is_deleted_although_nobody_revokes_its_tokens(
    caller: Caller, server: McpServer, pages: Client, pair: Pair
) -> None:
    pair.authorization.faults.append(Fault("status", status=500, only="/revoke"))
    shown = pages.post(f"{PAGE}{server.pk}/delete/", {"post": "yes"}, follow=True).content.decode()
    assert "but not revoked" in shown and not McpServer.objects.exists()


def test_a_program_begins_an_authorization_that_its_user_completes(
    server: McpServer, pages: Client, pair: Pair, operator: User
) -> None:
    program, path = RestCaller(operator), "mcp/servers/files/authorization"
    assert program.get(path).data["status"] == "none"
    back = pair.authorization.approve(program.post(path).data["authorizationUrl"])
    other = Client()
    other.force_login(User.objects.create_superuser("other", password="x"), "django.contrib.auth.backends.ModelBackend")
    assert "is not known here" in other.get(back, follow=True).content.decode(), "another operator has begun it"
    assert "files is authorized." in pages.get(back, follow=True).content.decode()
    shown = program.get(path).data
    assert (shown["status"], shown["issuer"], shown["scope"]) == ("authorized", pair.authorization.url, "files:read")
    assert program.delete(path).data == {"problem": None}
    assert program.get(path).data["status"] == "none" and len(pair.authorization.forms["/revoke"]) == 2
    authorize(pages, server, pair)
    pair.authorization.faults.append(Fault("status", status=500, only="/revoke"))
    assert "500" in program.delete("mcp/servers/files").data["problem"]
    assert not McpServer.objects.exists() and not McpAuthorization.objects.exists()


def test_an_authorization_is_forgotten_although_nobody_revokes_it(
    caller: Caller, server: McpServer, pages: Client, pair: Pair
) -> None:
    pair.authorization.faults.append(Fault("status", status=500, only="/revoke"))
    shown = pages.post(f"{PAGE}{server.pk}/forget/", YES, follow=True).content.decode()
    assert "but not revoked" in shown and not McpAuthorization.objects.exists()


def test_an_authorization_that_no_key_opens_can_be_forgotten(server: McpServer, pages: Client, pair: Pair) -> None:
    authorize(pages, server, pair)
    McpAuthorization.objects.update(tokens_sealed="broken")
    with pytest.raises(Exception, match="tokens cannot be read|cannot be reached"):
        discovery.refresh(server)
    pages.post(f"{PAGE}{server.pk}/forget/", YES)
    assert not McpAuthorization.objects.exists()


def test_a_refresh_does_not_bring_back_what_was_forgotten(caller: Caller, server: McpServer, pair: Pair) -> None:
    held = server_authorization.load(server.pk, server.url)
    tokens = {"access_token": "x" * 20, "refresh_token": "y" * 20, "scope": "", "seconds": 60}
    assert server_authorization.claim_refresh(server.pk, held.version)
    assert not server_authorization.claim_refresh(server.pk, held.version)
    server_authorization.forget(server)
    assert not server_authorization.store_refreshed(server.pk, held.version, tokens)


def test_the_lease_of_a_dead_process_ends(caller: Caller, server: McpServer) -> None:
    version = server_authorization.load(server.pk, server.url).version
    assert server_authorization.claim_refresh(server.pk, version)
    McpAuthorization.objects.update(refreshing_until=timezone.now() - timedelta(seconds=1))
    assert server_authorization.claim_refresh(server.pk, version)


def test_no_secret_is_stored_logged_or_shown(
    server: McpServer, pages: Client, pair: Pair, loop: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown = [authorize(pages, server, pair), pages.get(PAGE).content.decode()]
    age(server, hours=2)
    caller = Caller(loop, servers.config_of(server)).open()
    caller.call("read")
    caller.close()
    age(server, hours=2)
    pair.authorization.refresh.clear()
    with pytest.raises(NeedsAuthorization):
        Caller(loop, servers.config_of(server)).open()
    rows = [str(list(model.objects.values())) for model in (McpServer, McpAuthorization, AuditEntry)]
    sent = caplog.text
    for secret in SECRETS:
        assert all(secret not in text for text in (*shown, *rows)), secret
        assert secret not in sent, sent[sent.index(secret) - 200 : sent.index(secret) + 60]
