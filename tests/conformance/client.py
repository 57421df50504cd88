"""A program that the conformance suite runs as an MCP client: `python -m tests.conformance.client URL`.

It connects as Komand's agents do, and calls the tools that the scenario names, or each listed one. What a server asks,
it answers as a person who accepts every default, and authorizes what it demands.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any
from uuid import UUID

from tests.conformance.authorization import Granting
from tools_app.mcp_client import input_rounds
from tools_app.mcp_client.config import ServerConfig
from tools_app.mcp_client.connection import Connection
from tools_app.mcp_client.errors import Responses, ServerFault
from tools_app.mcp_client.input_rounds import Asker
from tools_app.types import AsksPerson, Resumed, ToolContext, ToolError
from tools_app.types.questions import NO_ANSWER, Question

_SECONDS = 20
_AUTHORIZATIONS = 3  # of a person who then gives up
_NOBODY = UUID(int=0)


async def main(url: str) -> None:
    """Use the server; authorize, and use it again, as often as it demands that within reason."""
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    tokens = Granting(url, context)
    for left in reversed(range(_AUTHORIZATIONS + 1)):
        try:
            await _use(ServerConfig("suite", "streamable_http", url=url, tokens=tokens), context.get("toolCalls"))
        except ServerFault:
            if not tokens.is_asked:
                raise
        if not (tokens.is_asked and left):
            return
        await tokens.authorize()


async def _use(config: ServerConfig, given: Any) -> None:
    connection = Connection(config)
    await connection.open()
    try:
        calls = given or [{"name": name, "arguments": _arguments(tool)} for name, tool in connection.tools.items()]
        for call in calls:
            with suppress(ToolError):
                await _call(connection, call["name"], call["arguments"])
    finally:
        await connection.aclose()


async def _call(connection: Connection, tool: str, arguments: dict[str, Any]) -> Any:
    async def send(responses: Responses | None, asker: Asker) -> Any:
        return await connection.call(
            tool, arguments, seconds=_SECONDS, on_progress=_ignore, responses=responses, answer=asker.answer
        )

    resumed: Resumed | None = None
    while True:
        of_run = (_NOBODY, _NOBODY, _NOBODY, "agent", "actor", "key", _SECONDS)
        try:
            return await input_rounds.make_call("suite", ToolContext(*of_run, None, resumed, _answer), send)
        except AsksPerson as asks:
            resumed = Resumed(asks.state, await _answer(asks.questions))


async def _answer(questions: Any) -> str:
    return "\n".join(map(_line, questions))


def _line(question: Question) -> str:
    return question.labels[0] if question.labels and not question.placeholder else NO_ANSWER


async def _ignore(progress: float, total: float | None, message: str | None) -> None:
    return


def _arguments(tool: Any) -> dict[str, Any]:
    """Return arguments that fit a tool's required parameters."""
    values: dict[str, Any] = {"number": 2, "integer": 2, "boolean": True}
    properties = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", [])
    return {name: values.get(properties.get(name, {}).get("type"), "text") for name in required}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[-1]))
