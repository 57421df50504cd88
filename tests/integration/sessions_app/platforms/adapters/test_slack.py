"""Slack from a message to its answer: by webhook and by Socket Mode, with previews, files and buttons."""

import json
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.contrib.auth.models import User

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.admin.masked_fields import masked_metadata, masked_payload
from sessions_app.channels import accounts
from sessions_app.channels.connections import condition
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Pairing, Session
from sessions_app.platforms.adapters.slack.adapter import Slack
from tests.fakes.http_server import Fault
from tests.fakes.slack import (
    APP_TOKEN,
    BOT_TOKEN,
    SIGNING_SECRET,
    FakeSlack,
    message_payload,
    press_payload,
    signed_headers,
)
from tests.support.approvals import Launch, wants_to_launch
from tests.support.channels import in_steps, post, settle
from tests.support.connections import SocketsThread
from tests.support.engine import EngineRig, until
from tests.support.slack import PATH, add, deliver
from tools_app.registry import tools
from tools_app.types import ToolCall

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as server:
        yield server


@pytest.fixture
def sockets(short_pauses: None, valkey: object) -> Iterator[SocketsThread]:
    with SocketsThread() as thread:
        yield thread


def press(payload: Any) -> int:
    body = urlencode({"payload": json.dumps(payload)}).encode()
    form = {"content-type": "application/x-www-form-urlencoded"}
    return post(PATH, body, {**signed_headers(body), **form})[0]


def test_a_mention_is_answered_once_in_a_thread_with_a_preview_and_a_file(rig: EngineRig, slack: FakeSlack) -> None:
    file = ToolCall("c1", "write_artifact", json.dumps({"path": "out/a.csv", "content": "a;b"}))
    held = threading.Event()
    rig.agent(Reply(("One moment.",), tool_calls=(file,)), Reply(("Done ", "**now**."), held_by=held))
    add(slack, config={"previews": "edit"})
    mention = message_payload(1, "<@UBOT> a file, please", channel="C1")
    for number in (1, 1, 2):  # Slack repeats it, and sends the mention as an event of its own
        assert deliver({**mention, "event_id": f"Ev{number}"}) == 200
    until(lambda: slack.shown("C1") == ["One moment.\n\nDone"])
    held.set()
    assert settle(rig) == ["sent", "sent"]
    assert Run.objects.count() == 1 and Session.objects.get().key == "Slack:main:C1:1780000001.000100"
    assert slack.shown("C1") == ["One moment.\n\nDone **now**."]
    assert set(slack.threads.values()) == {"1780000001.000100"}
    methods = [method for method, _ in slack.calls]
    assert "chat.update" in methods and "assistant.threads.setStatus" in methods
    assert slack.shared[0]["channel_id"] == "C1" and [*slack.uploads.values()] == [b"a;b"]


def test_a_refused_indicator_costs_no_preview(rig: EngineRig, slack: FakeSlack) -> None:
    held = threading.Event()
    rig.agent(Reply(("Hello ", "**world**."), held_by=held, delay_seconds=0.5))
    add(slack, config={"previews": "edit"})
    slack.faults.append(Fault("status", 404, only="assistant.threads.setStatus"))
    deliver(message_payload(1, "<@UBOT> hi", channel="C1"))
    until(lambda: slack.shown("C1") == ["Hello"])
    assert not slack.faults, "the indicator was refused before"
    held.set()
    assert settle(rig) == ["sent"] and slack.shown("C1") == ["Hello **world**."]


def command(slack: FakeSlack, number: int, text: str, channel: str) -> tuple[int, Any]:
    fields = {"command": "/komand", "text": text, "api_app_id": "A1", "team_id": "T1", "user_id": "501"}
    place = {"channel_id": channel, "trigger_id": f"trigger-{number}", "response_url": f"{slack.url}/respond/{number}"}
    body = urlencode({**fields, **place}).encode()
    form = {"content-type": "application/x-www-form-urlencoded"}
    return post(PATH, body, {**signed_headers(body), **form})


def test_a_slash_command_is_answered_where_the_app_is_not(rig: EngineRig, slack: FakeSlack) -> None:
    rig.agent(Reply(("To you ", "alone."), delay_seconds=0.3))
    add(slack, config={"previews": "edit"})
    slack.outside = {"D777"}
    status, receipt = command(slack, 1, "question", "D777")
    assert status == 200 and receipt["response_type"] == "ephemeral" and "only you see" in receipt["text"]
    assert settle(rig) == ["sent"] and slack.ephemerals == ["To you alone."] and not slack.shown("D777")
    assert command(slack, 2, "status", "D777") == (200, None)
    assert settle(rig, 2) == ["sent", "sent"] and "Nothing is running" in slack.ephemerals[1]
    command(slack, 3, "again", "D501")
    assert settle(rig, 3) == ["sent"] * 3 and slack.shown("D501") == ["To you alone."] and len(slack.ephemerals) == 2


def test_the_address_of_a_slash_command_expires_and_is_not_shown(
    rig: EngineRig, slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.agent(Reply(("late",)))
    add(slack, config={"previews": "none"})
    slack.outside = {"D777"}
    ago = timedelta(minutes=-1)
    monkeypatch.setattr("sessions_app.platforms.adapters.slack.events.timedelta", lambda **_: ago)
    command(slack, 1, "question", "D777")
    assert settle(rig) == ["failed"] and not slack.ephemerals
    row = InboundMessage.objects.get()
    assert row.metadata["reference"]["response_url"] == f"{slack.url}/respond/1"
    shown = (
        f"{masked_metadata(row.metadata)} {masked_payload(row.raw or '', row.metadata)} {Delivery.objects.get().error}"
    )
    assert "respond/1" not in shown and "respond%2F1" not in shown


@pytest.mark.parametrize(("previews", "thread"), [("edit", ""), ("stream", "1779999999.0001")])
def test_a_long_answer_grows_as_a_sequence_of_messages(
    rig: EngineRig, slack: FakeSlack, previews: str, thread: str
) -> None:
    words, held = [f"word{number} " for number in range(1400)], threading.Event()
    pieces = ["".join(words[start : start + 100]) for start in range(0, 1400, 100)]
    rig.agent(Reply((*pieces, "end."), held_by=held, delay_seconds=0.1))
    add(slack, config={"previews": previews})
    deliver(message_payload(1, "hi", **({"thread_ts": thread} if thread else {})))
    until(lambda: len(slack.shown()) == 4)
    *shown, _ = " ".join(slack.shown()).split()  # the last word may be growing
    assert shown == "".join(words).split()[: len(shown)]
    held.set()
    assert settle(rig, 4) == ["sent"] * 4 and not slack.streaming
    assert " ".join(slack.shown()).split() == [*"".join(words).split(), "end."]
    assert sum(method in ("chat.postMessage", "chat.startStream") for method, _ in slack.calls) == 4


def test_an_answer_that_is_too_long_keeps_what_was_shown_and_ends_with_a_file(rig: EngineRig, slack: FakeSlack) -> None:
    whole, held = "".join(f"word{number} " for number in range(3000)), threading.Event()
    pieces = [whole[start : start + 2000] for start in range(0, len(whole), 2000)]
    rig.agent(Reply((*pieces, "end."), held_by=held, delay_seconds=0.1))
    add(slack, config={"previews": "edit"})
    deliver(message_payload(1, "hi"))
    until(lambda: len(slack.shown()) == 5)
    held.set()
    assert settle(rig, 6) == ["sent"] * 6
    shown = " ".join(slack.shown()).split()
    assert shown == whole.split()[: len(shown)] and len(slack.shown()) == 5
    assert [*slack.uploads.values()] == [f"{whole}end.".encode()]


def test_a_shorter_answer_withdraws_messages_that_showed_more(rig: EngineRig, slack: FakeSlack) -> None:
    long, held = tuple("word " * 400 for _ in range(4)), threading.Event()
    rig.agent(Reply(long, held_by=held, error="provider_unavailable", retryable=True), Reply(("Short.",)))
    add(slack, config={"previews": "edit"})
    deliver(message_payload(1, "hi"))
    until(lambda: len(slack.shown()) > 1)
    held.set()
    settle(rig, len(slack.shown()))
    first, *others = slack.shown()
    assert first == "Short." and others and set(others) == {"(This part was withdrawn.)"}


def test_only_signed_requests_are_taken(rig: EngineRig, slack: FakeSlack) -> None:
    add(slack)
    body = json.dumps(message_payload(1, "hi")).encode()
    for headers in (
        signed_headers(body, secret="another"),
        signed_headers(body, at=time.time() - 400),
        {"content-type": "application/json"},
        signed_headers(b"{}"),
    ):
        assert post(PATH, body, headers)[0] == 401
    assert post("/channels/slack/unknown/webhook", body, signed_headers(body))[0] == 404
    assert not InboundMessage.objects.exists()


def test_finished_texts_are_messages_of_their_own_if_configured(rig: EngineRig, slack: FakeSlack) -> None:
    replies, held = in_steps("Let me look.", "Found it.")
    rig.agent(*replies)
    add(slack, config={"previews": "multi_message"})
    deliver(message_payload(1, "hi"))
    held[0].set()
    until(lambda: slack.shown() == ["Let me look."])
    held[1].set()
    assert settle(rig, 2) == ["sent", "sent"] and slack.shown() == ["Let me look.", "Found it."]


def test_a_button_decides_an_approval(rig: EngineRig, slack: FakeSlack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Launch, "launched", [])
    wants_to_launch(rig)
    with tools.override(Launch()):
        account = add(slack, config={"approvers": ["501"], "previews": "none"})
        Pairing.objects.create(account=account, sender_id="501", user=User.objects.create_superuser("zoe"))
        deliver(message_payload(1, "launch it"))
        prompt = until(lambda: Delivery.objects.filter(kind="approval", status="sent").first())
        ts = prompt.provider_message_id
        allow = slack.buttons["D501", ts]["Allow once"]
        assert press(press_payload(1, allow, ts, url=f"{slack.url}/respond/1")) == 200
        until(lambda: slack.ephemerals == ["Allowed once."])
        until(lambda: Run.objects.get().status == "completed" and not slack.buttons["D501", ts])


@pytest.mark.parametrize(
    ("error", "status", "enabled"),
    [("is_archived", "failed", True), ("token_revoked", "failed", False), ("fatal_error", "unknown", True)],
)
def test_errors_of_slack_end_a_delivery(
    rig: EngineRig, slack: FakeSlack, monkeypatch: pytest.MonkeyPatch, error: str, status: str, enabled: bool
) -> None:
    rig.agent(Reply(("fine",)))
    add(slack, config={"previews": "none"})
    monkeypatch.setattr(slack, "_chat_postMessage", lambda fields: slack._failure(error))
    deliver(message_payload(1, "hi"))
    assert settle(rig) == [status]
    until(lambda: ChannelAccount.objects.get().is_enabled is enabled)
    assert error in Delivery.objects.get().error


def test_a_throttled_message_waits_as_long_as_slack_asks(rig: EngineRig, slack: FakeSlack) -> None:
    rig.agent(Reply(("fine",)))
    add(slack, config={"previews": "none"})
    slack.faults.append(Fault("status", 429, retry_after=1, only="chat.postMessage"))
    deliver(message_payload(1, "hi"))
    assert settle(rig) == ["sent"] and slack.shown() == ["fine"] and Delivery.objects.get().tries == 2


def test_blocks_that_slack_refuses_are_sent_as_plain_text(rig: EngineRig, slack: FakeSlack) -> None:
    rig.agent(Reply(("**fine** <b>",)))
    add(slack, config={"previews": "none"})
    show = slack._show
    slack._show = lambda fields, ts: show(fields, ts) if not fields["blocks"] else slack._failure("invalid_blocks")  # type: ignore[method-assign]
    deliver(message_payload(1, "hi"))
    assert settle(rig) == ["sent"] and slack.shown() == ["**fine** &lt;b&gt;"]


def add_other(slack: FakeSlack, *, app_token: str = APP_TOKEN) -> None:
    """Add the account of a second workspace of the app."""
    config = {"api_url": f"{slack.url}/api", "chat_seconds": 0, "team_id": "T2", "previews": "none"}
    secrets = {"bot_token": BOT_TOKEN, "app_token": app_token, "signing_secret": SIGNING_SECRET}
    accounts.add_account(
        "slack", "other", config={**config, "receive": "webhook"}, secrets=secrets, access="open", tools=[]
    )


def of_other(number: int) -> dict[str, Any]:
    install = {"team_id": "T2", "user_id": "UBOT2", "is_bot": True}
    return {**message_payload(number, f"hi {number}"), "team_id": "T2", "authorizations": [install]}


def test_several_workspaces_share_the_address_of_an_app(rig: EngineRig, slack: FakeSlack) -> None:
    rig.agent(Reply(("fine",)))
    add(slack, config={"previews": "none", "team_id": "T1"})
    deliver(of_other(1))
    assert not InboundMessage.objects.exists()
    add_other(slack)
    deliver(of_other(2))
    deliver(message_payload(3, "hi"))
    assert settle(rig, 2) == ["sent"] * 2
    assert sorted(InboundMessage.objects.values_list("account__account_id", "text")) == [
        ("main", "hi"),
        ("other", "hi 2"),
    ]


@pytest.mark.parametrize(("app_token", "is_answered"), [(APP_TOKEN, True), ("xapp-of-another-app", False)])
def test_several_workspaces_share_the_connections_of_an_app(
    rig: EngineRig, slack: FakeSlack, sockets: SocketsThread, app_token: str, is_answered: bool
) -> None:
    rig.agent(Reply(("fine",)))
    add(slack, receive="socket", config={"previews": "none", "team_id": "T1"})
    add_other(slack, app_token=app_token)
    slack.queue(of_other(1))
    until(lambda: not slack.envelopes)
    slack.queue(message_payload(2, "hi"))
    assert settle(rig, 2 if is_answered else 1) == ["sent"] * (2 if is_answered else 1)
    found = set(InboundMessage.objects.values_list("account__account_id", "text"))
    assert found == {("main", "hi"), *([("other", "hi 1")] if is_answered else [])}


def test_socket_mode_answers_and_survives_a_cut(rig: EngineRig, slack: FakeSlack, sockets: SocketsThread) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    add(slack, receive="socket")
    slack.queue(message_payload(1, "hi"))
    settle(rig)
    slack.socket.cut()
    slack.queue(message_payload(1, "hi"), message_payload(2, "and now?"))
    settle(rig, 2)
    assert slack.shown() == ["one", "two"] and Run.objects.count() == 2
    until(lambda: not slack.envelopes)
    assert slack.socket.connections >= 2
    found = condition.describe(ChannelAccount.objects.get())
    assert found and found.is_ok


def test_a_half_open_connection_is_replaced(
    rig: EngineRig, slack: FakeSlack, sockets: SocketsThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.agent(Reply(("one",)))
    monkeypatch.setattr(Slack, "silent_seconds", 0.3)
    slack.is_silent = True
    monkeypatch.setattr("sessions_app.platforms.web_socket.PING_SECONDS", 3600.0)
    add(slack, receive="socket")
    until(lambda: slack.socket.connections)
    slack.is_silent = False
    slack.queue(message_payload(1, "hi"))
    settle(rig)
    assert slack.shown() == ["one"]


def test_a_revoked_app_token_needs_attention(rig: EngineRig, slack: FakeSlack, sockets: SocketsThread) -> None:
    slack.app_token = "another"
    add(slack, receive="socket")
    found = until(lambda: (now := condition.describe(ChannelAccount.objects.get())) and "attention" in now.text and now)
    assert "app_token" in found.text and APP_TOKEN not in found.text


def test_the_test_learns_the_workspace_and_the_bot(valkey: object, slack: FakeSlack) -> None:
    account = add(slack, receive="socket")
    lines = accounts.try_out(account).lines
    assert "@komand" in lines[0] and "Socket Mode" in lines[1]
    config = ChannelAccount.objects.get().config
    assert (config["team_id"], config["bot_user_id"]) == ("T1", "UBOT")
