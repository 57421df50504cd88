"""`echo`: returns its text. For testing."""

from typing import Any

from tools_app.parameters import parameters, text
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolSpec


class Echo(Tool):
    spec = ToolSpec(
        name="echo",
        description="Return the text unchanged, to test that tools work.",
        parameters=parameters("text", text=text("")),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=10,
        reads=Reads.NOTHING,
        sends=(),
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        return {"text": arguments["text"]}
