"""The web chat for visitors of other sites: who may write, what is accepted once, and what a page gets to see."""

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt
import pytest
from django.contrib.auth.models import User
from django.test import Client

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.errors import InvalidInput
from sessions_app.attachments import file_content
from sessions_app.models import Attachment, InboundMessage, Pairing, Session, Turn
from sessions_app.platforms.adapters.web import visitor_tokens
from tests.support.approvals import Launch, wants_to_launch
from tests.support.engine import EngineRig
from tests.support.rest import make_agent
from tests.support.webchat import (
    IDENTITY_SECRET,
    SECRETS,
    SITE,
    TOKEN_SECRET,
    add_web,
    encoded,
    get,
    message,
    post,
    read_events,
    token,
    user_hash,
    visitor,
)
from tools_app.models import Approval
from tools_app.registry import tools
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database, pytest.mark.usefixtures("valkey")]

ASK = ToolCall("c", "ask_user", json.dumps({"question": "Which colour?", "options": ["Red", "Blue"]}))
OWN = "http://localhost"


@pytest.fixture
def site() -> None:
    make_agent()
    add_web()


def claims_of(found: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(found, options={"verify_signature": False})
    return claims


# Sessions.


def test_a_new_visitor_gets_a_token_for_a_conversation_of_their_own(site: None) -> None:
    one, other = (post("site/sessions", {"name": "Ann"}) for _ in range(2))
    assert one.status == 201 and one.headers["access-control-allow-origin"] == SITE
    claims = claims_of(one.data["token"])
    assert (claims["sub"], claims["sid"]) == (one.data["visitorId"], one.data["conversationId"])
    assert (claims["aud"], claims["name"], claims["native"]) == ("webchat:site", "Ann", False)
    assert claims["exp"] - claims["iat"] <= 24 * 3600
    assert {one.data["visitorId"], one.data["conversationId"]} & {*other.data.values()} == set()


def test_a_user_of_the_site_is_known_by_the_hash_of_the_site(site: None) -> None:
    known = post("site/sessions", {"userId": "u-7", "userHash": user_hash("u-7")})
    assert (known.status, known.data["visitorId"], known.data["conversationId"]) == (201, "u-7", "main")
    other = post("site/sessions", {"userId": "u-7", "userHash": user_hash("u-7"), "conversationId": "two"})
    assert other.data["conversationId"] == "two"
    for wrong in (user_hash("u-8"), "", "é", None):
        refused = post("site/sessions", {"userId": "u-7", "userHash": wrong})
        assert (refused.status, refused.data["error"]) == (401, "user_hash_refused")
    secrets = {**SECRETS, "identity_secret": "of-next-month-" * 3, "identity_secret_before": IDENTITY_SECRET}
    add_web("rotated", secrets=secrets)
    both = [user_hash("u-7"), visitor_tokens.user_hash(secrets["identity_secret"], "u-7")]
    opened = [post("rotated/sessions", {"userId": "u-7", "userHash": given}).status for given in (*both, "0" * 64)]
    assert opened == [201, 201, 401], "while a secret is replaced, both count"
    like_anonymous = {"userId": "anon-ann", "userHash": user_hash("anon-ann")}
    assert post("site/sessions", like_anonymous).status == 401, "nobody is named like a visitor without a name"


def test_a_valid_token_is_renewed_for_the_same_conversation(site: None) -> None:
    renewed = post("site/sessions", bearer=token())
    assert (renewed.data["visitorId"], renewed.data["conversationId"]) == ("anon-ann", "c1")
    assert claims_of(renewed.data["token"])["name"] == "Ann"
    assert post("site/sessions", bearer="x").status == 401


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "", f"{SITE}.evil.example", f"{SITE}:1"])
def test_pages_of_other_sites_are_refused(site: None, origin: str) -> None:
    opened = post("site/sessions", Origin=origin)
    sent = post("site/messages", message(), bearer=token(), Origin=origin)
    for answer in (opened, sent):
        assert (answer.status, answer.data["error"]) == (403, "origin_refused")
        assert "access-control-allow-origin" not in answer.headers
    assert not InboundMessage.objects.exists()


def test_our_own_page_and_apps_may_write(site: None) -> None:
    assert post("site/messages", message(), bearer=token(), Origin=OWN).status == 202
    assert post("site/messages", message(), bearer=token(is_native=True), Origin="").status == 202
    assert post("site/messages", message(), bearer=token(is_native=True), Origin="null").status == 403
    add_web("app", config={"native_apps": True})
    assert claims_of(post("app/sessions", Origin="").data["token"])["native"] is True
    assert claims_of(post("app/sessions").data["token"])["native"] is False


def _unsigned() -> str:
    head, claims = b'{"alg":"none","typ":"JWT"}', json.dumps(claims_of(token())).encode()
    return f"{encoded(head)}.{encoded(claims)}."


def _other_algorithm() -> str:
    return jwt.encode(claims_of(token()), TOKEN_SECRET * 2, algorithm="HS512")


def _expired() -> str:
    then = datetime.now(UTC) - timedelta(seconds=70)
    return visitor_tokens.issue_token(TOKEN_SECRET, "site", visitor(expires_at=then), then - timedelta(hours=1))


def _ticket() -> str:
    return visitor_tokens.issue_ticket(TOKEN_SECRET, "site", visitor(), datetime.now(UTC))


@pytest.mark.parametrize(
    "make",
    [
        _unsigned,
        _other_algorithm,
        _expired,
        _ticket,
        lambda: token("other"),
        lambda: token(secret="x" * 40),
        lambda: "",
        lambda: "a.b.c",
    ],
)
def test_a_token_that_is_not_ours_is_refused(site: None, make: Callable[[], str]) -> None:
    answer = post("site/messages", message(), bearer=make())
    assert (answer.status, answer.data["error"]) == (401, "token_refused")


def test_a_token_may_be_a_minute_late(site: None) -> None:
    then = datetime.now(UTC) - timedelta(seconds=30)
    late = visitor_tokens.issue_token(TOKEN_SECRET, "site", visitor(expires_at=then), then - timedelta(hours=1))
    assert post("site/messages", message(), bearer=late).status == 202


def test_new_conversations_are_limited_by_address_and_by_account(site: None, settings: Any) -> None:
    settings.KOMAND_VISITOR_LIMIT, settings.KOMAND_VISITORS_LIMIT = 2, 100
    assert [post("site/sessions").status for _ in range(3)] == [201, 201, 429]
    settings.KOMAND_VISITOR_LIMIT, settings.KOMAND_VISITORS_LIMIT = 100, 1
    add_web("other")
    assert [post("other/sessions").status for _ in range(2)] == [201, 429]


def test_an_unknown_account_has_neither_conversations_nor_pages(db: None) -> None:
    assert post("none/sessions").status == 404
    assert post("none/messages", message(), bearer=token("none")).status == 401
    assert [Client().get(f"/webchat/none/{name}").status_code for name in ("widget", "embed.js")] == [404, 404]


# Messages.


def test_a_message_is_taken_once(site: None) -> None:
    sent = message("Hello", senderId="someone", accountId="other", timestamp="2020-01-01T00:00:00Z")
    first, again = (post("site/messages", sent, bearer=token()) for _ in range(2))
    assert (first.status, first.data) == (202, {"messageId": sent["clientMessageId"]})
    assert (again.status, again.data) == (200, {"messageId": sent["clientMessageId"], "duplicate": True})
    stored = InboundMessage.objects.get()
    assert (stored.sender_id, stored.sender_name, stored.text) == ("anon-ann", "Ann", "Hello")
    assert abs((datetime.now(UTC) - stored.sent_at).total_seconds()) < 60
    assert Session.objects.get().key == "Web:site:anon-ann:c1" and Run.objects.count() == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": ""},
        {"text": " \n\u200b\u2060\ufeff"},
        {"text": "x" * 8001},
        {"text": 7},
        {"text": "x", "clientMessageId": "1"},
        {"text": "x", "attachments": ["nothing"]},
        {"text": "x", "attachments": [str(uuid4())]},
    ],
)
def test_what_is_no_message_is_422(site: None, wrong: dict[str, Any]) -> None:
    assert post("site/messages", message(**wrong), bearer=token()).status == 422
    assert not InboundMessage.objects.exists()


def test_the_longest_message_is_taken(site: None) -> None:
    assert post("site/messages", message("x" * 8000), bearer=token()).status == 202


def test_unreadable_json_is_400(site: None) -> None:
    assert post("site/messages", b"{", bearer=token()).status == 400


def test_a_command_is_answered_at_once(site: None) -> None:
    answer = post("site/messages", message("/help"), bearer=token())
    assert answer.status == 202 and "/new" in answer.data["notice"]["markdown"]
    assert "<code>/new</code>" in answer.data["notice"]["html"] and not Run.objects.exists()


def test_an_unpaired_visitor_is_answered_with_how_to_pair(db: None) -> None:
    make_agent()
    add_web(access="paired")
    answer = post("site/messages", message(), bearer=token())
    assert answer.status == 202 and "/pair CODE" in answer.data["notice"]["markdown"] and not Run.objects.exists()


def test_visitors_who_write_too_fast_are_429(site: None, settings: Any) -> None:
    settings.KOMAND_SENDER_LIMIT = 1
    statuses = [post("site/messages", message(), bearer=token()).status for _ in range(2)]
    assert statuses == [202, 429]


# Files.


def upload(content: bytes, bearer: str) -> Any:
    head = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a/notes.txt"\r\n\r\n'
    form = head + content + b"\r\n--b--\r\n"
    return post("site/uploads", form, bearer=bearer, Content_Type="multipart/form-data; boundary=b")


def test_a_document_of_a_visitor_holds_up_nobody(site: None, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    read = file_content.read

    def noted(data: bytes) -> Any:
        threads.append(threading.current_thread().name)
        return read(data)

    monkeypatch.setattr(file_content, "read", noted)
    assert upload(b"x", token()).status == 201
    assert threads[0].startswith("in_slow_thread")


def test_a_file_goes_with_one_message_of_its_visitor(site: None) -> None:
    made = upload(b"the code is 7", token())
    assert (made.status, made.data["filename"], made.data["sizeBytes"]) == (201, "notes.txt", 13)
    files = [made.data["uploadId"]]
    assert post("site/messages", message("", attachments=files), bearer=token(id="anon-bob")).status == 422
    assert post("site/messages", message("", attachments=files), bearer=token()).status == 202
    assert post("site/messages", message("", attachments=files), bearer=token()).status == 422, "it was sent"
    assert "the code is 7" in Turn.objects.get().attached and Attachment.objects.get().status == "stored"


def test_a_form_without_a_file_is_400(site: None) -> None:
    assert upload(b"", token()).data["error"] == "empty_file"
    broken = post("site/uploads", b"x", bearer=token(), Content_Type="multipart/form-data; boundary=b")
    assert broken.status == 400


# Events.


def test_an_answer_streams_and_is_shown_again_on_another_page(rig: EngineRig) -> None:
    rig.agent(Reply(("**Hel", "lo** <b>you</b> ![x](https://evil.example/p.png)")))
    add_web()
    sent = message("Hi")
    assert post("site/messages", sent, bearer=token()).status == 202
    events = read_events(token(), "message.completed")
    names = [event.name for event in events if event.name != "message.delta"]
    assert names == ["message.received", "typing", "message.started", "message.completed"]
    assert events[0].data == {"messageId": sent["clientMessageId"], "text": "Hi", "files": []}
    html = events[-1].data["html"]
    assert "<strong>Hello</strong> &lt;b&gt;you&lt;/b&gt;" in html and "<img" not in html and "nofollow" in html
    deltas = [event.data for event in events if event.name == "message.delta"]
    assert "".join(delta["text"] for delta in deltas).startswith("**Hello**")
    shown = str([(delta["blocks"], delta.get("draft")) for delta in deltas])
    assert "<strong>Hel" in shown, "the text is rendered while it grows"
    assert "<img" not in shown and "<b>" not in shown
    rest = read_events(token(), "message.completed", last_id=events[-2].id)
    assert {event.name for event in rest[:-1]} <= {"message.delta"}, "it resumes behind the last event"
    again = read_events(token(), "message.completed", last_id=f"00000000:{events[-1].id.partition(':')[2]}")
    assert again[0].name == "message.received", "the id is of another conversation"


def test_a_visitor_sees_no_conversation_of_another(rig: EngineRig) -> None:
    rig.agent(Reply(("One.",)), Reply(("Two.",)))
    add_web()
    for name, text in (("anon-ann", "of Ann"), ("anon-bob", "of Bob")):  # in conversations of the same name
        post("site/messages", message(text), bearer=token(id=name))
        read_events(token(id=name), "message.completed")
    seen = read_events(token(id="anon-bob"), "message.completed")
    assert "of Ann" not in str(seen) and "One." not in str(seen) and "of Bob" in str(seen)
    assert Session.objects.count() == 2


def test_there_are_tickets_for_a_conversation_that_has_begun(site: None) -> None:
    refused = post("site/tickets", bearer=token())
    assert (refused.status, refused.data["error"]) == (404, "no_conversation")


def test_a_ticket_opens_one_connection(site: None) -> None:
    post("site/messages", message(), bearer=token())
    made = post("site/tickets", bearer=token())
    assert made.status == 201 and made.data["expiresIn"] == 30
    path = f"site/events?ticket={made.data['ticket']}"
    Session.objects.all().delete()
    assert get(path).data["error"] == "no_conversation", "the ticket was accepted"
    assert get(path).data["error"] == "token_refused"
    assert post(f"site/messages?ticket={_ticket()}", message()).status == 401, "a ticket is for reading"
    old = visitor_tokens.issue_ticket(TOKEN_SECRET, "site", visitor(), datetime.now(UTC) - timedelta(seconds=31))
    assert get(f"site/events?ticket={old}").status == 401


def test_typing_is_accepted(site: None) -> None:
    assert post("site/typing", bearer=token()).status == 204


# Buttons.


def test_a_question_is_answered_by_a_button(rig: EngineRig) -> None:
    rig.agent(Reply(("I *ask*.",), tool_calls=(ASK,)), Reply(("Painted.",)))
    add_web()
    post("site/messages", message("paint it"), bearer=token())
    question = read_events(token(), "approval.requested")[-1].data
    assert "Which colour?" in question["title"] and question["kind"] == "question"
    assert "<li>" not in question["title"], "its options are buttons"
    assert [choice["label"] for choice in question["choices"]] == ["Red", "Blue"]
    blue = {"actionId": question["choices"][1]["id"]}
    assert "no longer active" in post("site/actions", blue, bearer=token(id="anon-bob")).data["notice"]["markdown"]
    assert post("site/actions", blue, bearer=token()).status == 202
    events = read_events(token(), "message.completed")
    [resolved] = [event.data for event in events if event.name == "approval.resolved"]
    assert resolved == {"actionId": question["actionId"], "outcome": "answered", "answer": "Blue"}
    assert events[-1].data["markdown"] == "I *ask*.\n\nPainted."
    steps = [(part["step"], "<em>ask</em>" in part["html"]) for part in events[-1].data["steps"]]
    assert steps == [(0, True), (1, False)], "each part stays at its step, also around the question"
    assert "Blue" in [event.data.get("text") for event in events]


@pytest.mark.parametrize("is_paired", [True, False])
def test_only_a_visitor_who_may_decide_gets_buttons(
    rig: EngineRig, monkeypatch: pytest.MonkeyPatch, *, is_paired: bool
) -> None:
    monkeypatch.setattr(Launch, "launched", [])
    wants_to_launch(rig)
    with tools.override(Launch()):
        account = add_web()
        if is_paired:
            user = User.objects.create_user("carol", is_superuser=True)
            Pairing.objects.create(account=account, sender_id="anon-ann", user=user)
        post("site/messages", message("launch it"), bearer=token())
        request = read_events(token(), "approval.requested")[-1].data
        assert request["kind"] == "approval" and ("moon" in request["title"]) is is_paired
        if not is_paired:
            assert (
                request["choices"] == []
                and request["title"] == '<p dir="auto">We are checking this and will answer here.</p>\n'
            )
            press = f"apr:{encoded(Approval.objects.get().pk.bytes)}:o"
            assert (
                "Only an operator"
                in post("site/actions", {"actionId": press}, bearer=token()).data["notice"]["markdown"]
            )
            assert not Launch.launched
            return
        [once] = [choice["id"] for choice in request["choices"] if choice["label"] == "Allow once"]
        assert post("site/actions", {"actionId": once}, bearer=token()).data["notice"]["markdown"] == "Allowed once."
        assert read_events(token(), "message.completed")[-1].data["markdown"] == "Over."
        assert Launch.launched == ["moon"]


@pytest.mark.parametrize("action", ["", "x" * 300, 7, None])
def test_what_is_no_button_is_422(site: None, action: Any) -> None:
    assert post("site/actions", {"actionId": action}, bearer=token()).status == 422


# Pages.


def test_only_the_sites_of_the_account_may_frame_the_chat(site: None) -> None:
    page = Client().get("/webchat/site/widget")
    policy = page.headers["content-security-policy"]
    assert f"frame-ancestors 'self' {SITE};" in f"{policy};" and "script-src" not in policy
    assert "x-frame-options" not in page.headers
    assert "default-src 'self'" in policy
    assert page.headers["cross-origin-embedder-policy"] == "require-corp"
    assert page.headers["cross-origin-resource-policy"] == "cross-origin"


def test_the_page_shows_what_the_account_says(db: None) -> None:
    add_web(config={"greeting": "Hi <b>", "starters": ["Open?", "Lost?"], "theme": "dark", "accent": "#7a1fa2"})
    page = Client().get("/webchat/site/widget").content.decode()
    for shown in ('initial-message="Hi &lt;b&gt;"', 'theme="dark"', 'data-accent="#7a1fa2"', 'starters="Open?\nLost?"'):
        assert shown in page
    with pytest.raises(InvalidInput, match="is not a colour"):
        add_web("other", config={"accent": "red; background: url(https://evil.example)"})


def test_the_page_knows_how_large_a_file_may_be(site: None, settings: Any) -> None:
    settings.KOMAND_ARTIFACT_MAX_BYTES = 10_000
    assert 'max-file-bytes="8000"' in Client().get("/webchat/site/widget").content.decode()
    assert upload(b"x" * 7999, token()).status == 201
    assert upload(b"x" * 10_000, token()).status == 413


def test_the_script_and_the_test_page(site: None) -> None:
    script = Client().get("/webchat/site/embed.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert script.content == Path("static/js/webchat/embed.js").read_bytes()
    client = Client()
    assert client.get("/webchat/site/test").headers["location"].startswith("/login")
    client.force_login(User.objects.create_user("ada"), "django.contrib.auth.backends.ModelBackend")
    assert "&lt;script src=&quot;http" in client.get("/webchat/site/test").content.decode().replace('"', "&quot;")


def test_a_hash_is_checked_on_the_test_page(site: None) -> None:
    client = Client()
    client.force_login(User.objects.create_user("ada"), "django.contrib.auth.backends.ModelBackend")
    right = client.post("/webchat/site/test", {"user_id": "u-7", "user_hash": user_hash("u-7")}).content.decode()
    assert "it names this user" in right
    wrong = client.post("/webchat/site/test", {"user_id": "<b>", "user_hash": user_hash("u-7")}).content.decode()
    assert "The hash is not of this user" in wrong and "<b>" not in wrong
    anonymous = client.post("/webchat/site/test", {"user_id": "anon-ann", "user_hash": user_hash("anon-ann")})
    assert "do not begin with anon-" in anonymous.content.decode()
    signed = client.post("/webchat/site/test", {"user_id": "u-7", "user_hash": "eyJhbGciOiJIUzI1NiJ9.eyJzIjoxfQ.x"})
    assert "This is a JWT" in signed.content.decode()
    secrets = {**SECRETS, "identity_secret": "of-next-month-" * 3, "identity_secret_before": IDENTITY_SECRET}
    add_web("rotated", secrets=secrets)
    for given, verdict in (
        (visitor_tokens.user_hash(secrets["identity_secret"], "u-7"), "it names this user"),
        (user_hash("u-7"), "of the secret before, and counts until you remove that one"),
    ):
        shown = client.post("/webchat/rotated/test", {"user_id": "u-7", "user_hash": given}).content.decode()
        assert verdict in shown
    assert Client().post("/webchat/site/test").status_code in (302, 401, 403)
