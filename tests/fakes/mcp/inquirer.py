"""An MCP server whose tools ask a person. `python -m tests.fakes.mcp.inquirer` speaks stdio; with a port, HTTP at /mcp.

Both revisions: a client of the newer one gets results that need input, one of an older one requests during the call.
Each request that reaches a tool is written to the file LEDGER, one line of JSON each.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

server = MCPServer("asking", version="1")
NEWER = "2026-07-28"
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Name(BaseModel):
    name: str


def note(**seen: Any) -> None:
    if path := os.environ.get("LEDGER"):
        with open(path, "a") as file:
            file.write(json.dumps(seen) + "\n")


def form(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def needs(state: str | None, **requests: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests=requests or None, request_state=state)


@server.tool()
async def greet(context: Context) -> str | types.InputRequiredResult:
    """Asks for a name and greets."""
    if context.protocol_version != NEWER:
        note(tool="greet")
        result = await context.elicit("What is your name?", Name)
        note(tool="greet", action=result.action)
        return f"Hello, {result.data.name}!" if result.action == "accept" else f"No name: {result.action}"
    given = (context.input_responses or {}).get("who")
    note(tool="greet", state=context.request_state, action=getattr(given, "action", None))
    if not isinstance(given, types.ElicitResult):
        return needs("state-of-greet", who=form("What is your name?", NAME))
    if context.request_state != "state-of-greet":
        return "the state was lost"
    return f"Hello, {(given.content or {})['name']}!" if given.action == "accept" else f"No name: {given.action}"


@server.tool()
async def order(context: Context) -> str | types.InputRequiredResult:
    """Asks for a size and a number, then whether that is right."""
    responses = context.input_responses or {}
    note(tool="order", answers=sorted(responses))
    if "form" in responses:
        content = getattr(responses["form"], "content", None)
        return needs(json.dumps(content), sure=form(f"Order {content}?", {"type": "object", "properties": {}}))
    if "sure" in responses:
        return f"{getattr(responses['sure'], 'action', '')} {context.request_state}"
    fields: dict[str, Any] = {
        "size": {"type": "string", "enum": ["s", "m"], "enumNames": ["Small", "Medium"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "gift": {"type": "boolean"},
    }
    return needs("", form=form("What do you want?", {"type": "object", "properties": fields, "required": ["size"]}))


@server.tool()
async def link(context: Context) -> str | types.InputRequiredResult:
    """Needs a page to be opened first."""
    url = "https://pay.example.com/42"
    if context.protocol_version == NEWER:
        given = (context.input_responses or {}).get("page")
        params = types.ElicitRequestURLParams(message="Please pay.", url=url)
        return f"page: {given.action}" if given else needs("s", page=types.ElicitRequest(params=params))  # type: ignore[union-attr]
    note(tool="link")
    if len(Path(os.environ["LEDGER"]).read_text().splitlines()) < 2:
        data = {"elicitations": [{"mode": "url", "message": "Please pay.", "url": url, "elicitationId": "42"}]}
        raise MCPError(types.URL_ELICITATION_REQUIRED, "Pay first.", data)
    return "paid"


@server.tool()
async def flood(how: str, context: Context) -> str | types.InputRequiredResult:
    """Asks too much, in one of several ways."""
    note(tool="flood")
    match how:
        case "rounds":
            return needs("again")
        case "state":
            return needs("x" * 70_000)
        case "questions":
            many = {str(number): {"type": "string"} for number in range(9)}
            return needs(None, form=form("Many.", {"type": "object", "properties": many}))
        case "nested":
            nested = {"inner": {"type": "object", "properties": {}}}
            return needs(None, form=form("Deep.", {"type": "object", "properties": nested}))
        case "sampling":
            params = types.CreateMessageRequestParams(messages=[], max_tokens=1)
            return needs(None, model=types.CreateMessageRequest(params=params))
        case "asks":
            for _ in range(20):
                await context.elicit("Again?", Name)
    return "done"


@server.tool()
async def hang(context: Context) -> str | types.InputRequiredResult:
    """Asks, and hangs once it has the answer."""
    if context.input_responses:
        await anyio.sleep_forever()
    return needs(None, who=form("Who?", NAME))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run("stdio")
