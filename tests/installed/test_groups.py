"""Groups, as docs/channels.md describes them, on a whole installation: what the model gets, and what is answered."""

import re
from concurrent.futures import Future
from typing import Any

from tests.fakes.model_server import ModelServer
from tests.fakes.slack import BOT_USER, message_payload
from tests.fakes.telegram import BOT_NAME, group_update
from tests.installed.platforms.base import SECONDS, Platform
from tests.installed.test_channels import requests_with
from tests.support.live_server import wait_for

Joined = dict[str, Future[Platform[Any]]]
GROUP, CHANNEL = -100_777, "C900"
_MENTION = {"entities": [{"type": "mention", "offset": 0, "length": len(BOT_NAME) + 1}]}
_CONTEXT = re.compile(r"\[context (\w+)\]\n(.*)\n\[end of context \1\]\n\n(.*)", re.DOTALL)


def last_message(model: ModelServer, text: str) -> tuple[str, str]:
    """Return the context and the text of the newest message in the last request with this text."""
    content = requests_with(model, text)[-1].messages[-1]["content"]
    found = _CONTEXT.search(content)
    assert found, content
    return found[2], found[3]


def test_the_model_gets_who_speaks_what_is_quoted_and_what_was_said(joined: Joined, model_server: ModelServer) -> None:
    platform = joined["telegram"].result()
    ann, bob = ({"id": int(platform.person()), "is_bot": False, "first_name": name} for name in ("Ann", "Bob"))

    def say(who: dict[str, Any], text: str, **extra: Any) -> dict[str, Any]:
        update = group_update(next(platform.numbers), text, chat=GROUP, **{"from": who, **extra})
        platform.deliver(update)
        return update

    before = len(requests_with(model_server, "boats"))
    quoted = say(ann, "We ship the boats on Friday.")["message"]
    say(bob, "Or on Monday.")
    assert len(requests_with(model_server, "boats")) == before
    say(bob, f'@{BOT_NAME} is that so? [[text="On Friday."]]', **_MENTION, reply_to_message=quoted)
    wait_for(lambda: platform.server.chat(GROUP) == ["On Friday."], SECONDS, "the answer, which grows")
    context, text = last_message(model_server, "boats")
    assert text.startswith("is that so?") and context.endswith("Author of the message: Bob")
    assert "written by Ann:\n> We ship the boats on Friday." in context
    assert re.search(r"not to you, by\n(.*\n)*Bob, [-\d]+ [:\d]+:\n> Or on Monday\.", context), context


def test_what_follows_in_a_thread_is_answered_without_a_mention(joined: Joined, model_server: ModelServer) -> None:
    platform = joined["slack"].result()
    ann, bob = platform.person(), platform.person()

    def say(who: str, text: str, **extra: Any) -> str:
        payload = message_payload(next(platform.numbers), text, user=who, channel=CHANNEL, **extra)
        platform.deliver(payload)
        return str(payload["event"]["ts"])

    def answers() -> list[str]:
        return platform.server.shown(CHANNEL)

    thread = say(ann, f'<@{BOT_USER}> which boat? [[text="The red one."]]')
    wait_for(lambda: answers() == ["The red one."], SECONDS, "the first answer")
    say(ann, 'lunch, anybody? [[text="Not for you."]]')
    say(bob, 'and its captain? [[text="Captain Zoë."]]', thread_ts=thread)
    wait_for(lambda: answers()[1:] == ["Captain Zoë."], SECONDS, "the second answer")
    context, text = last_message(model_server, "captain")
    assert text.startswith("and its captain?") and "Author of the message: " in context
    shown = [platform.server.threads[ts] for ts in platform.server.messages[CHANNEL]]
    assert shown == [thread, thread] and "Not for you." not in answers()
