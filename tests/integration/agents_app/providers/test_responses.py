"""A run whose model speaks the Responses protocol: reasoning is stored with the step and goes back with its results."""

import json
from typing import Any

import pytest

from agents_app.models import Agent, ModelProvider, Step
from agents_app.types import RunStatus
from audit_app.models import Event
from tests.fakes.replay_server import Recorded, ReplayServer
from tests.support.engine import EngineRig

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_database]

SECRET = "gAAAAABoENCRYPTED"
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "I have to echo."}],
    "encrypted_content": SECRET,
}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "echo", "arguments": '{"text":"hi"}'}
ANSWER = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}


def stream(*items: dict[str, Any]) -> Recorded:
    usage = {"input_tokens": 9, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 3}}
    end = {"type": "response.completed", "response": {"status": "completed", "output": items, "usage": usage}}
    return Recorded(f"data: {json.dumps(end)}\n\n".encode())


def test_encrypted_reasoning_goes_back_with_the_results_and_is_shown_nowhere(rig: EngineRig) -> None:
    with ReplayServer(stream(REASONING, CALL), stream(ANSWER)) as server:
        provider = ModelProvider.objects.create(
            name="responses", kind="openai_responses", base_url=server.base_url, default_model="big-1"
        )
        fields = {"provider": provider, "is_shared_with_everyone": True}
        Agent.objects.update_or_create(agent_id="default", defaults={"name": "Assistant", **fields})
        transcript = rig.wait(rig.send().run_id)
    assert (transcript.run.status, transcript.answer) == (RunStatus.COMPLETED, "Done.")
    first, last = server.bodies
    assert SECRET not in json.dumps(first)
    sent = [item.get("type") or item["role"] for item in last["input"]]
    assert sent == ["user", "reasoning", "function_call", "function_call_output"]
    assert last["input"][1]["encrypted_content"] == SECRET
    steps = list(Step.objects.order_by("index"))
    assert [step.reasoning for step in steps] == ["I have to echo.", ""]
    assert steps[0].dialect_state["items"][0] == REASONING and steps[1].dialect_state is None
    assert (steps[0].input_tokens, steps[0].output_tokens) == (9, 5)
    assert SECRET not in json.dumps([event.payload for event in Event.objects.all()], default=str)
