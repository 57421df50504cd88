"""A tool that needs approval, and an agent that calls it."""

import json
from typing import Any

from agents_app.providers.kinds.scripted import Reply
from tests.support.engine import EngineRig, until
from tools_app.models import Approval
from tools_app.types import Effect, Risk, Tool, ToolCall, ToolContext, ToolSpec


class Launch(Tool):
    """A tool of high risk that is never repeated. launched: the targets, in this process."""

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
    """Make the agent call `launch` once before each of the answers."""
    replies = []
    for number, answer in enumerate(answers or ("Over.",)):
        call = ToolCall(f"c{number}", "launch", json.dumps({"target": target}))
        replies += [Reply(tool_calls=(call,)), Reply((answer,))]
    rig.agent(*replies)


def asked(count: int = 1) -> Approval:
    """Wait for that many requests, and return the newest."""
    until(lambda: Approval.objects.count() >= count)
    return Approval.objects.select_related("execution").order_by("-id")[0]
