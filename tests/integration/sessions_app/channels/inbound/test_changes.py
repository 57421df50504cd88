"""Edits and deletions of messages before and after their run begins, and reactions to answers."""

from unittest.mock import Mock

import pytest
from django.db import DatabaseError

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.models import Event
from sessions_app.channels.inbound import changes
from sessions_app.models import ChannelAccount, Delivery, Feedback, InboundMessage, Turn
from sessions_app.platforms.messages import Chat, MessageDeleted, MessageEdited, Reaction
from tests.fakes.telegram import FakeTelegram, private_update
from tests.support.channels import add_telegram, settle, telegram
from tests.support.engine import EngineRig, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

KEY = "message:501:1"


@pytest.fixture(autouse=True)
def _agent(idle: EngineRig) -> None:
    idle.agent(Reply(("fine",)))


def test_an_edit_before_the_run_begins_replaces_the_text(idle: EngineRig, platform: FakeTelegram) -> None:
    add_telegram(platform)
    telegram(private_update(1, "helo"))
    for _ in range(2):
        assert telegram({"update_id": 5, "edited_message": private_update(1, "hello")["message"]}) == 200
    assert Turn.objects.get().content == InboundMessage.objects.get().text == "hello"
    [changed] = Event.objects.filter(type="message.changed")
    assert changed.payload == {"turn_id": str(Turn.objects.get().pk)} and changed.run_id == Run.objects.get().pk


def test_an_edit_of_another_sender_of_an_unknown_message_or_of_a_wrong_length_changes_nothing(
    idle: EngineRig, platform: FakeTelegram
) -> None:
    account = add_telegram(platform)
    telegram(private_update(1, "hello"))
    for event in (
        MessageEdited(KEY, "666", "evil"),
        MessageEdited("message:501:9", "501", "evil"),
        MessageEdited(KEY, "501", " "),
        MessageEdited(KEY, "501", "x" * 10_001),
    ):
        changes.handle(account, event)
    assert Turn.objects.get().content == "hello"


def test_an_edit_after_the_run_has_begun_changes_nothing(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("fine",)))
    account = add_telegram(platform)
    telegram(private_update(1, "hello"))
    settle(rig)
    changes.handle(account, MessageEdited(KEY, "501", "other"))
    assert Turn.objects.get(role="user").content == "hello"


@pytest.mark.parametrize("hangs", [False, True], ids=["queued", "running"])
def test_a_deletion_cancels_the_run(rig: EngineRig, platform: FakeTelegram, hangs: bool) -> None:
    rig.agent(Reply((), hangs=True))
    account = add_telegram(platform)
    if not hangs:
        rig.drops = lambda name: True
    telegram(private_update(1, "hello"))
    run = Run.objects.get()
    if hangs:
        until(lambda: Run.objects.get().status == "running")
    for _ in range(2):
        changes.handle(account, MessageDeleted(KEY))
    until(lambda: Run.objects.get(pk=run.pk).status == "cancelled")
    assert InboundMessage.objects.get().reason == changes.DELETED


def test_a_deletion_that_failed_halfway_cancels_the_run_when_it_comes_again(
    idle: EngineRig, platform: FakeTelegram, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = add_telegram(platform)
    telegram(private_update(1, "hello"))
    with monkeypatch.context() as broken, pytest.raises(DatabaseError):
        broken.setattr(changes, "cancel_session_runs", Mock(side_effect=DatabaseError))
        changes.handle(account, MessageDeleted(KEY))
    changes.handle(account, MessageDeleted(KEY))
    assert Run.objects.get().status == "cancelled" and InboundMessage.objects.get().reason == changes.DELETED


def test_a_reaction_to_an_answer_is_feedback(rig: EngineRig, platform: FakeTelegram) -> None:
    rig.agent(Reply(("fine",)))
    account = add_telegram(platform)
    telegram(private_update(1, "hello"))
    settle(rig)
    sent = Delivery.objects.get()
    reaction = Reaction(sent.provider_message_id, "501", Chat("501"), "👍🏽")
    for emoji in ("👍🏽", "thumbsup", "👀"):
        changes.handle(account, Reaction(sent.provider_message_id, "501", Chat("501"), emoji))
    row = Feedback.objects.get()
    assert (row.rating, row.sender, row.target_id) == ("UP", "telegram/main:501", sent.run_id) and row.user is None
    changes.handle(account, Reaction(sent.provider_message_id, "501", Chat("501"), "-1"))
    assert Feedback.objects.get().rating == "DOWN"
    changes.handle(account, Reaction(sent.provider_message_id, "501", Chat("501"), "-1", is_removed=True))
    assert not Feedback.objects.exists()
    ChannelAccount.objects.update(access="allow_list")
    changes.handle(ChannelAccount.objects.get(), reaction)
    assert not Feedback.objects.exists(), "a sender without access gives no feedback"


@pytest.mark.parametrize(("emoji", "rating"), [("❤️", "UP"), (":+1::skin-tone-3:", "UP"), ("👎🏿", "DOWN"), ("x?", "")])
def test_the_rating_of_an_emoji(emoji: str, rating: str) -> None:
    assert changes.rating_of(emoji) == rating
