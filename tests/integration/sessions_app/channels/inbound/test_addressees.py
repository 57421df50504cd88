"""Threads in which the agent has answered: which messages in them are for it."""

from collections.abc import Iterator
from typing import Any

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from sessions_app.models import Delivery, GroupMessage, InboundMessage, Pairing, Session
from tests.fakes.slack import FakeSlack, message_payload
from tests.support import slack as slack_account
from tests.support.channels import settle
from tests.support.engine import EngineRig, until
from tests.support.slack import deliver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

ROOT = "1780000001.000100"


@pytest.fixture
def slack() -> Iterator[FakeSlack]:
    with FakeSlack() as server:
        yield server


def say(number: int, text: str, *, user: str = "U1", in_thread: bool = True, **extra: Any) -> None:
    thread = {"thread_ts": ROOT} if in_thread else {}
    assert deliver(message_payload(number, text, user=user, channel="C1", **thread, **extra)) == 200


def test_what_follows_an_answer_in_its_thread_needs_no_mention(rig: EngineRig, slack: FakeSlack) -> None:
    script = rig.agent(Reply(("fine",)))
    slack_account.add(slack)
    say(1, "<@UBOT> hello", in_thread=False)
    settle(rig)
    say(2, "and tomorrow?", user="U2")
    settle(rig, 2)
    assert Run.objects.count() == 2 and Session.objects.count() == 1
    assert script.requests[-1].messages[-1].content.endswith("and tomorrow?")
    say(3, "<@U1> what do you think?", user="U2")  # to somebody else
    say(4, "another thing", in_thread=False)  # opens a thread of its own
    say(5, "talk of another thread", in_thread=False, thread_ts="1780000004.000100")
    assert Run.objects.count() == 2 and GroupMessage.objects.count() == 3
    say(6, "<@U1> and <@UBOT>, agreed?", user="U2")
    settle(rig, 3)
    asked = script.requests[-1].messages[-1].content
    assert "> @U1 what do you think?" in asked and "another" not in asked


def test_a_name_that_slack_does_not_send_is_looked_up_for_what_follows(rig: EngineRig, slack: FakeSlack) -> None:
    script = rig.agent(Reply(("fine",)))
    slack.users |= {"U1": "Ann", "U2": "Bob"}
    slack_account.add(slack)
    say(1, "<@UBOT> hello", in_thread=False)
    settle(rig)
    until(lambda: InboundMessage.objects.filter(sender_name="Ann").exists())
    say(2, "me too", user="U2")
    settle(rig, 2)
    until(lambda: InboundMessage.objects.filter(sender_name="Bob").exists())
    say(3, "and now?")
    settle(rig, 3)
    texts = [message.content for message in script.requests[-1].messages if message.role == "user"]
    authors = [text.partition("Author of the message: ")[2].splitlines()[0] for text in texts]
    assert authors == ["Ann", "Bob", "Ann"]


def test_a_thread_brings_the_message_with_which_it_began(rig: EngineRig, slack: FakeSlack) -> None:
    script = rig.agent(Reply(("fine",)))
    slack_account.add(slack)
    say(0, "something older", in_thread=False)
    say(1, "We ship on Friday.", user="U2", in_thread=False)
    say(2, "Is that sure?")
    assert not Run.objects.exists()
    say(3, "<@UBOT> what do you think?")
    settle(rig)
    asked = script.requests[-1].messages[-1].content
    assert "> We ship on Friday." in asked and "> Is that sure?" in asked and "older" not in asked


@pytest.mark.parametrize("groups", ["mention", "reply"])
def test_the_account_may_ask_for_mentions(rig: EngineRig, slack: FakeSlack, groups: str) -> None:
    rig.agent(Reply(("fine",)))
    slack_account.add(slack, config={"groups": groups})
    say(1, "<@UBOT> hello", in_thread=False)
    settle(rig)
    say(2, "and tomorrow?")
    assert Run.objects.count() == 1


def test_bots_and_strangers_do_not_continue_a_thread(rig: EngineRig, slack: FakeSlack) -> None:
    """Two bots that know each other would never end, and a stranger gets no refusal for talking to others."""
    rig.agent(Reply(("fine",)))
    account = slack_account.add(slack, access="paired", config={"known_bots": ["B9"]})
    Pairing.objects.create(account=account, sender_id="U1")
    say(1, "<@UBOT> hello", in_thread=False)
    settle(rig)
    say(2, "I am a bot", user="UB9", bot_id="B9")
    say(3, "I am nobody's friend", user="U9")
    say(4, "/status")
    assert Run.objects.count() == 1 and InboundMessage.objects.exclude(reason="").count() == 1
    assert Delivery.objects.filter(kind="notice").count() == 1
    assert [*GroupMessage.objects.values_list("sender_id", flat=True)] == ["U9"]
