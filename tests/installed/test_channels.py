"""Channels, as docs/channels.md describes them, on a whole installation: what the person sees, and how soon."""

import json
from typing import Any

from tests.fakes.model_server import ModelCall, ModelServer
from tests.installed.platforms.base import FORGED, SECONDS, Platform
from tests.support.live_server import wait_for

# A run that begins with its nudge begins 0.7 s (the window of a burst) after the message; one whose nudge is lost
# 2 s later, at best. The load of the machine delays one message or another, not the fastest of three, by a second.
SOON = 2.0
REPORT = b"Sold: 17 boats."
_WRITE = f"[[tool=write_artifact args={json.dumps({'path': 'out/report.txt', 'content': REPORT.decode()})}]]"


def requests_with(model: ModelServer, text: str) -> list[ModelCall]:
    """Return the requests to the model whose messages contain a text."""
    return [request for request in list(model.requests) if text in json.dumps(request.messages)]


def began(model: ModelServer, text: str) -> float:
    """Return when the run of a message began, in monotonic seconds."""
    found = wait_for(lambda: requests_with(model, text), SECONDS, f"a request with {text}")
    return float(found[0].at)


def test_a_short_message_is_answered_soon(platform: Platform[Any], model_server: ModelServer) -> None:
    people = [platform.person() for _ in range(3)]
    sent = {person: platform.say(person, f'I am {person}. [[text="Hello {person}."]]') for person in people}
    for person in people:
        platform.wait_for(person, [f"Hello {person}."])
    waited = [began(model_server, f"I am {person}.") - at for person, at in sent.items()]
    assert min(waited) < SOON, waited


def say_twice(platform: Platform[Any], person: str) -> None:
    messages = [platform.message(person, f'{part} of {person} [[text="Both."]]') for part in ("first", "second")]
    for message in messages:
        platform.deliver(message)


def test_two_short_messages_are_answered_as_one(platform: Platform[Any], model_server: ModelServer) -> None:
    """Try it up to three times: on a busy machine the second message may come after the window of 0.7 s."""
    for person in (platform.person() for _ in range(3)):
        say_twice(platform, person)
        began(model_server, f"second of {person}")
        is_one = len(requests_with(model_server, f"first of {person}")) == 1
        platform.wait_for(person, ["Both."] if is_one else ["Both.", "Both."])
        if is_one == platform.joins_bursts:
            return
    raise AssertionError("no two messages were joined")


def test_a_file_of_the_person_reaches_the_model(platform: Platform[Any], model_server: ModelServer) -> None:
    person = platform.person()
    platform.say(person, 'look at this [[text="I see."]]', file=f"the notes of {person}".encode())
    platform.wait_for(person, ["I see."])
    assert requests_with(model_server, f"the notes of {person}")


def test_a_file_of_the_agent_reaches_the_person(platform: Platform[Any]) -> None:
    person = platform.person()
    platform.say(person, f"a report, please {_WRITE}")
    # Before the answer, some platforms show a placeholder.
    wait_for(lambda: "report.txt" in "".join(platform.texts(person)[:1]), SECONDS, "the answer")
    answer = platform.texts(person)[0]
    if platform.takes_files:
        [upload] = wait_for(lambda: platform.files(person), SECONDS, "the file")
        assert b"report.txt" in upload and REPORT in upload
    elif platform.installation.public_url:
        # The link may stand in a later part of the answer.
        [linked] = wait_for(lambda: platform.linked_files("\n".join(platform.texts(person))), SECONDS, "the link")
        assert linked == REPORT
    else:
        assert "cannot be sent here" in answer


def test_a_question_is_answered_by_a_button(platform: Platform[Any], model_server: ModelServer) -> None:
    person = platform.person()
    option = f"Blue{person[-2:]}"
    question = {"question": f"Which colour, {person}?", "options": ["Red", option]}
    platform.say(person, f"ask me [[tool=ask_user args={json.dumps(question)}]]")
    asked = wait_for(lambda: platform.texts(person), SECONDS, "the question")
    assert f"Which colour, {person}?" in asked[0]
    platform.press(person, option)
    wait_for(lambda: len(requests_with(model_server, f"Which colour, {person}?")) > 1, SECONDS, "the next step")
    answers = [request.messages[-1] for request in requests_with(model_server, f"Which colour, {person}?")]
    assert any(answer["role"] == "tool" and option in answer["content"] for answer in answers)
    wait_for(lambda: option in platform.texts(person)[-1], SECONDS, "the answer")


def test_a_repeated_message_is_answered_once_and_a_new_one_too(platform: Platform[Any]) -> None:
    person = platform.person()
    message = platform.message(person, 'again [[text="Once."]]')
    for _ in range(20):
        platform.deliver(message)
    platform.wait_for(person, ["Once."])
    platform.say(person, 'something else [[text="Twice."]]')
    platform.wait_for(person, ["Once.", "Twice."])


def test_a_stranger_and_a_forger_are_not_heard(platform: Platform[Any], model_server: ModelServer) -> None:
    stranger, person = platform.stranger(), platform.person()
    platform.say(stranger, f"let me in, I am {stranger}")
    assert platform.forge(person) in (None, 401, 403, 404)
    platform.say(person, 'and I may? [[text="You may."]]')
    platform.wait_for(person, ["You may."])
    assert not platform.texts(stranger) and not requests_with(model_server, f"I am {stranger}")
    assert not requests_with(model_server, FORGED)
