"""AG-UI as `<komand-chat>` uses it: older turns, messages that join an answer, other versions of a message."""

import asyncio
import json
import threading
from typing import Any
from uuid import uuid4

import pytest

from agents_app.models import Run
from agents_app.providers.kinds.scripted import Reply
from audit_app.kernel.database import in_db
from sessions_app.identity.api_keys import create_api_key
from sessions_app.models import Feedback, Turn
from sessions_app.surfaces.chat import queries
from tests.integration.sessions_app.surfaces.test_ag_ui import SUM, FrontEnd, acts, text, types
from tests.support.engine import EngineRig
from tests.support.rest import make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey"), pytest.mark.one_database]


def page(**wishes: Any) -> dict[str, Any]:
    return {"forwardedProps": {"komand": {"view": "page", **wishes}}}


@pytest.fixture
def key(alice: Any) -> str:
    return create_api_key(alice, "k", scopes=["all"]).key


async def test_older_turns_are_shown_on_request(rig: EngineRig, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await in_db(rig.agent, *(Reply((f"Answer {number}.",)) for number in range(3)))
    front = FrontEnd(key)
    for number in range(3):
        await front.say(f"Question {number}")
    monkeypatch.setattr(queries, "TURNS_AT_ONCE", 4)
    [newest] = acts(await front.run(messages=[], **page(thread=True)))
    assert "Question 2" in newest["html"] and "Question 0" not in newest["html"] and "Show older" in newest["html"]
    before = await in_db(Turn.objects.get, content="Question 1")
    older = await front.run(messages=[], **page(thread=True, before=before.ordinal))
    assert types(older) == ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]
    [shown] = acts(older)
    assert shown["do"] == "older" and "Question 0" in shown["html"] and "Question 1" not in shown["html"]


async def test_a_message_joins_the_answer_that_is_written(rig: EngineRig, key: str) -> None:
    held = threading.Event()
    first = Reply(("Let me ", "see."), tool_calls=(SUM,), held_by=held)
    script = await in_db(rig.agent, first, Reply(("It is 42.",)), busy_policy="queue")
    front, other = FrontEnd(key), FrontEnd(key)
    other.thread = front.thread
    saying = asyncio.create_task(front.say("What is 6*7?", **page()))
    while not await in_db(Run.objects.filter(status="running").exists):
        await asyncio.sleep(0.02)  # the state is in the database, which sends nothing
    joining = asyncio.create_task(other.say("In words, please", **page(busy="steer")))
    while not await in_db(Turn.objects.filter(content="In words, please").exists):
        await asyncio.sleep(0.02)  # the state is in the database, which sends nothing
    held.set()
    both = await asyncio.gather(saying, joining)
    assert [events[-1]["outcome"] for events in both] == [{"type": "success"}] * 2
    assert await in_db(Run.objects.count) == 1
    assert "In words, please" in str(script.requests[1].messages[-1].content)


async def test_a_message_and_its_answer_are_replaced(rig: EngineRig, key: str) -> None:
    replies = [Reply((f"It is {name}.",)) for name in ("one", "two", "three")]
    await in_db(rig.agent, *replies)
    front = FrontEnd(key)
    await front.say("Which?")
    first = await in_db(Run.objects.get)
    said = {"id": uuid4().hex, "role": "user", "content": "Which one?"}
    body = {"messages": [said], "runId": "edit-1", **page(replaces=str(first.pk))}
    edited = await front.run(**body)
    assert text(edited) == "It is two."
    branch = next(act for act in acts(edited) if act["do"] == "branch")
    assert "Which one?" in branch["html"] and "It is one." not in branch["html"]
    assert text(await front.run(**body)) == "It is two.", "the same request shows the same run"
    last = await in_db(Run.objects.exclude(pk=first.pk).get)
    again = await front.run(messages=[], **page(replaces=str(last.pk)))
    assert text(again) == "It is three." and await in_db(Turn.objects.filter(content="Which one?").count) == 2
    mallory = FrontEnd((await in_db(create_api_key, await in_db(make_user, "mallory"), "k", scopes=["all"])).key)
    await mallory.say("Mine")
    status, found = await mallory.post(messages=[], **page(replaces=str(first.pk)))
    assert status == 404 and "It is" not in json.dumps(found), "runs of others are not found"


async def test_an_earlier_version_is_selected_and_shown(rig: EngineRig, key: str) -> None:
    held = threading.Event()
    await in_db(rig.agent, Reply(("It is one.",)), Reply(("It is two.",)), Reply(("Held.",), held_by=held))
    front = FrontEnd(key)
    await front.say("Which?")
    first = await in_db(Run.objects.get)
    await front.run(messages=[], **page(replaces=str(first.pk)))
    selected = await front.run(messages=[], **page(thread=True, branch=0))
    assert types(selected) == ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]
    [shown] = acts(selected)
    assert "It is one." in shown["html"] and "Version 1 of 2" in shown["html"]
    assert acts(await front.run(messages=[], **page(thread=True)))[0]["html"] == shown["html"], "it stays so"
    assert (await front.post(messages=[], **page(thread=True, branch=7)))[0] == 404
    assert (await front.post(messages=[], **page(thread=True, branch="1")))[0] == 400
    saying = asyncio.create_task(front.say("And?"))
    while not await in_db(Run.objects.filter(status="running").exists):
        await asyncio.sleep(0.02)  # the state is in the database, which sends nothing
    other = FrontEnd(key)
    other.thread = front.thread
    status, refused = await other.post(messages=[], **page(thread=True, branch=1))
    held.set()
    await saying
    assert (status, json.loads(refused)["code"]) == (409, "run_busy")


async def test_an_answer_is_rated_with_a_comment(rig: EngineRig, alice: Any, key: str) -> None:
    await in_db(rig.agent, Reply(("It is one.",)), Reply(("Mine.",)))
    front = FrontEnd(key)
    await front.say("Which?")
    rated = {"run": str((await in_db(Run.objects.get)).pk)}

    async def rate(**fields: str) -> tuple[Any, tuple[str, str] | None]:
        events = await front.run(messages=[], **page(rating={**rated, **fields}))
        assert types(events) == ["RUN_STARTED", "CUSTOM", "RUN_FINISHED"]
        row = await in_db(Feedback.objects.filter(user=alice).first)
        return acts(events)[0]["html"], (row.rating, row.comment) if row else None

    asked, stored = await rate(rating="DOWN")
    assert "What was wrong?" in asked and stored == ("DOWN", "")
    said, stored = await rate(rating="DOWN", comment="Too <b>short")
    assert "Too &lt;b&gt;short" in said and "<form" not in said and stored == ("DOWN", "Too <b>short")
    [shown] = acts(await front.run(messages=[], **page(thread=True)))
    assert "Too &lt;b&gt;short" in shown["html"], "the thread shows it"
    assert "<form" not in (await rate(rating=""))[0] and not await in_db(Feedback.objects.exists)
    for unfit in ({"rating": "GREAT"}, {"rating": 7}, {"rating": "UP", "run": "x"}, {"rating": "UP", "comment": 7}):
        assert (await front.post(messages=[], **page(rating={**rated, **unfit})))[0] == 400, unfit
    other = FrontEnd(key)
    assert (await other.post(messages=[], **page(rating={**rated, "rating": "UP"})))[0] == 404, "of another thread"
    mallory = FrontEnd((await in_db(create_api_key, await in_db(make_user, "mallory"), "k", scopes=["all"])).key)
    await mallory.say("Mine")
    assert (await mallory.post(messages=[], **page(rating={**rated, "rating": "UP"})))[0] == 404, "of another user"
    assert not await in_db(Feedback.objects.exists)
