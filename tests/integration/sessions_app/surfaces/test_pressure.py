"""Fifty concurrent messages to one session through REST; and duplicates of one message through every interface."""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test import Client

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply, Script, ScriptedProvider
from agents_app.types import ModelRequest
from audit_app import follow
from audit_app.kernel.database import in_db
from sessions_app.identity import access_tokens
from sessions_app.integrity_checks import find_violations
from sessions_app.models import Session, Turn
from sessions_app.surfaces.rest.consumers import WebChatMessage
from tests.support.engine import EngineRig, until
from tests.support.rest import Answer, LiveCaller

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

MANY = 50
PATH = "/api/webchat/message"
APPLICATION = WebChatMessage.as_asgi()


class Echo(Script):
    """A model that repeats the last message. partial: it never finishes."""

    def __init__(self, *, partial: bool = False) -> None:
        super().__init__(())
        self.partial = partial

    def take(self, request: ModelRequest) -> Reply:
        self.requests.append(request)
        return Reply((f"answer to {request.messages[-1].content}",), hangs=self.partial)


@pytest.fixture(autouse=True)
def _limits(settings: Any) -> None:
    settings.KOMAND_CHAT_LIMIT = settings.KOMAND_API_LIMIT = 10_000


def answer_by(script: Script, rig: EngineRig, **fields: Any) -> None:
    rig.agent(Reply(("x",)), **fields)
    ScriptedProvider.scripts["script"] = script


def post_all(rig: EngineRig, query: str = "?wait=0", key: str = "") -> list[Answer]:
    """Post that many messages concurrently, each with a key of its own or all with the same one."""
    bearer = access_tokens.open_login(rig.owner).access

    async def post(number: int) -> Answer:
        body = {"senderId": str(rig.owner.pk), "text": key or f"message {number}"}
        caller = LiveCaller(APPLICATION, bearer=bearer)
        return await caller("POST", PATH + query, body, Idempotency_Key=key or f"key {number}")

    async def post_them() -> list[Answer]:
        try:
            return await asyncio.gather(*map(post, range(MANY)))
        finally:
            await follow.current_follower().aclose()

    return asyncio.run(post_them())


def outcomes(answers: list[Answer]) -> "Counter[Any]":
    return Counter((answer.status, (answer.meta or {}).get("code")) for answer in answers)


def rests() -> bool:
    return not Run.objects.filter(ended_at=None).exists()


def is_whole() -> bool:
    return find_violations() == []


@pytest.mark.whole
def test_a_queue_that_is_long_enough_answers_each_message_in_order(rig: EngineRig) -> None:
    answer_by(Echo(), rig, queue_limit=MANY)
    answers = post_all(rig, "")
    assert outcomes(answers) == {(200, None): MANY}
    assert [answer.data["text"] for answer in answers] == [f"answer to message {number}" for number in range(MANY)]
    ended = list(Run.objects.order_by("ended_at").values_list("ordinal", flat=True))
    assert ended == list(range(MANY)) and is_whole()


def test_a_queue_of_the_default_length_takes_21_and_stores_nothing_of_the_rest(rig: EngineRig) -> None:
    answer_by(Echo(partial=True), rig)
    answers = post_all(rig)
    assert outcomes(answers) == {(202, None): 21, (429, "queue_full"): 29}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in answers if answer.status == 429)
    assert (Run.objects.count(), Turn.objects.count(), Session.objects.get().message_count) == (21, 21, 21)


def test_reject_takes_one_and_refuses_the_rest(rig: EngineRig) -> None:
    answer_by(Echo(partial=True), rig, busy_policy="reject")
    assert outcomes(post_all(rig)) == {(202, None): 1, (409, "run_busy"): 49}
    assert (Run.objects.count(), Turn.objects.count()) == (1, 1)


@pytest.mark.whole
def test_interrupt_leaves_the_last_and_keeps_the_text_of_the_others(rig: EngineRig) -> None:
    script = Echo(partial=True)
    answer_by(script, rig, busy_policy="interrupt")
    assert outcomes(post_all(rig)) == {(202, None): MANY}
    until(lambda: Run.objects.filter(ended_at=None).count() == 1, 60)
    assert Run.objects.get(ended_at=None).ordinal == MANY - 1
    script.partial = False
    assert Counter(Run.objects.values_list("status", flat=True))["cancelled"] == MANY - 1
    assert Turn.objects.filter(role="user").count() == MANY
    for turn in Turn.objects.filter(is_answer=True).select_related("run"):
        asked = Turn.objects.get(run=turn.run, role="user").content
        assert turn.state == "partial" and (not turn.content or turn.content.endswith(asked))


@pytest.mark.whole
def test_steer_leaves_no_message_unanswered_and_gives_one_answer_a_run(rig: EngineRig) -> None:
    script = Echo()
    answer_by(script, rig, busy_policy="steer")
    assert outcomes(post_all(rig)) == {(202, None): MANY}
    until(rests, 60)
    asked = "\n\n".join(message.content for message in script.requests[-1].messages if message.role == "user")
    assert set(asked.split("\n\n")) == {f"message {number}" for number in range(MANY)}
    assert Turn.objects.filter(role="user").count() == MANY
    assert Turn.objects.filter(is_answer=True).count() == Run.objects.filter(status="completed").count()
    assert is_whole()


def test_copies_under_one_key_are_one_message_while_it_runs_and_long_after(rig: EngineRig) -> None:
    answer_by(Echo(), rig)
    first = post_all(rig, "", key="hello")
    again = post_all(rig, "", key="hello")
    assert outcomes(first) == outcomes(again) == {(200, None): MANY}
    assert {answer.meta["runId"] for answer in (*first, *again)} == {str(Run.objects.get().pk)}
    assert {answer.data["text"] for answer in (*first, *again)} == {"answer to hello"}


@pytest.mark.parametrize("is_first", [True, False], ids=["a first message", "a later message"])
def test_a_double_click_on_the_page_is_one_message(rig: EngineRig, is_first: bool) -> None:
    answer_by(Echo(), rig)
    session = None if is_first else rig.send("before")
    form = {"text": "hello", "key": str(uuid4())}

    def click(_: int) -> str:
        try:
            browser = Client()
            browser.force_login(rig.owner)
            return browser.post(f"/chat/{session.session_id}/messages" if session else "/chat/start", form)["Location"]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as fingers:
        places = set(fingers.map(click, range(4)))
    until(rests)
    assert len(places) == 1 and Session.objects.count() == 1
    assert Turn.objects.filter(role="user", content="hello").count() == 1 and is_whole()


async def test_a_key_is_its_owners_alone(rig: EngineRig) -> None:
    await in_db(answer_by, Echo(), rig)
    other = await in_db(lambda: type(rig.owner).objects.create_user("bob", "bob@example.org", "secret-enough"))
    runs = set()
    for user in (rig.owner, other):
        bearer = (await in_db(access_tokens.open_login, user)).access
        body = {"senderId": str(user.pk), "text": "hello"}
        answer = await LiveCaller(APPLICATION, bearer=bearer)("POST", PATH, body, Idempotency_Key="same")
        runs.add(answer.meta["runId"])
    assert len(runs) == 2
