"""A tool that must not run unasked, and an agent that asks for it."""

import json
from typing import Any

from agents_app.providers.kinds.scripted import Reply
from tests.support.engine import EngineRig, until
from tools_app.models import Approval
from tools_app.types import Effect, Risk, Tool, ToolCall, ToolContext, ToolSpec


class Launch(Tool):
    """Of high risk, and never repeated. launched: what was launched, in this process."""

    spec = ToolSpec(
        "launch",
        "Launches.",
        {"type": "object", "properties": {"target": {"type": "string"}}},
        effect=Effect.ONCE,
        risk=Risk.HIGH,
    )
    launched: list[str] = []

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        self.launched.append(arguments["target"])
        return "launched"


def wants_to_launch(rig: EngineRig, *answers: str, target: str = "moon") -> None:
    """The agent asks for a launch once for each answer that it gives then."""
    replies = []
    for number, answer in enumerate(answers or ("Over.",)):
        call = ToolCall(f"c{number}", "launch", json.dumps({"target": target}))
        replies += [Reply(tool_calls=(call,)), Reply((answer,))]
    rig.agent(*replies)


def asked(count: int = 1) -> Approval:
    """The newest request, once there are so many."""
    until(lambda: Approval.objects.count() >= count)
    return Approval.objects.select_related("execution").order_by("-id")[0]
