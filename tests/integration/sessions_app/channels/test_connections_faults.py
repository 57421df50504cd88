"""Connections whose platform restarts, renews them, or revokes their token: no message is lost or answered twice."""

from collections.abc import Iterator

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.channels.connections import condition
from sessions_app.models import ChannelAccount, ChannelConnection
from tests.fakes.slack import APP_TOKEN, FakeSlack, message_payload
from tests.fakes.telegram import FakeTelegram, private_update
from tests.support import slack as slack_account
from tests.support.channels import add_telegram, settle
from tests.support.connections import SocketsThread
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]


@pytest.fixture
def sockets(rig: EngineRig, short_pauses: None) -> Iterator[SocketsThread]:
    with SocketsThread() as thread:
        yield thread


def connected_at() -> object:
    return ChannelConnection.objects.exclude(connected_at=None).values_list("connected_at", flat=True).first()


def test_a_bot_api_server_that_restarts(rig: EngineRig, sockets: SocketsThread) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    first, second = private_update(1, "hi"), private_update(2, "and now?")
    with FakeTelegram() as before:
        add_telegram(before)
        before.queue([first])
        assert settle(rig) == ["sent"] and before.chat(501) == ["one"]
    until(lambda: ChannelConnection.objects.get().error)
    assert "trying again" in described().text
    with FakeTelegram(port=before.port) as after:
        after.queue([first, second])  # it has lost what was confirmed
        assert settle(rig, 2) == ["sent"] * 2
        until(lambda: after.chat(501) == ["two"] and described().is_ok)
    assert Run.objects.count() == 2


def test_a_workspace_that_restarts(rig: EngineRig, sockets: SocketsThread) -> None:
    rig.agent(Reply(("one",)), Reply(("two",)))
    with FakeSlack() as before:
        slack_account.add(before, receive="socket")
        before.queue(message_payload(1, "hi"))
        assert settle(rig) == ["sent"]
    until(lambda: ChannelConnection.objects.get().error)
    with FakeSlack(port=before.port) as after:
        after.queue(message_payload(1, "hi"), message_payload(2, "and now?"))
        assert settle(rig, 2) == ["sent"] * 2
        until(lambda: after.shown() == ["two"] and not after.envelopes)
    assert Run.objects.count() == 2


def test_a_connection_that_slack_renews(rig: EngineRig, sockets: SocketsThread) -> None:
    rig.agent(Reply(("one",)))
    with FakeSlack() as slack:
        slack_account.add(slack, receive="socket")
        until(connected_at)
        slack.farewell = "refresh_requested"
        until(lambda: slack.socket.connections >= 2)
        slack.queue(message_payload(1, "hi"))
        assert settle(rig) == ["sent"] and slack.shown() == ["one"]


def test_a_token_that_is_revoked_while_connected(rig: EngineRig, sockets: SocketsThread) -> None:
    rig.agent(Reply(("one",)))
    with FakeSlack() as slack:
        slack_account.add(slack, receive="socket")
        until(connected_at)
        slack.app_token = "another"
        slack.socket.cut()
        until(lambda: "attention" in described().text)
        assert "app_token" in described().remedy + described().text and APP_TOKEN not in described().text


def described() -> condition.Condition:
    found = condition.describe(ChannelAccount.objects.get())
    assert found
    return found
