"""A well-behaved MCP server. `python -m tests.fakes.mcp.good` speaks stdio; with a port it serves /mcp (or SSE)."""

import os
import sys

import anyio
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.types import ToolAnnotations
from pydantic import BaseModel

server = MCPServer("good", version="1.2.3", instructions="For tests.")


class Sum(BaseModel):
    total: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> Sum:
    """Adds two numbers."""
    return Sum(total=a + b)


@server.tool()
def shout(text: str) -> str:
    """Says it louder."""
    return text.upper()


@server.tool()
def environment() -> str:
    """Returns the names of the environment variables and the working folder."""
    return " ".join(sorted(os.environ)) + f" in {os.getcwd()}"


@server.tool()
def secret_length() -> int:
    return len(os.environ.get("API_KEY", ""))


@server.tool()
def fail(reason: str) -> str:
    raise ValueError(reason)


@server.tool()
def picture() -> Image:
    return Image(data=b"\x89PNG\r\n\x1a\n1", format="png")


@server.tool()
async def slowly(steps: int, context: Context) -> str:
    """Reports each step."""
    for step in range(steps):
        await context.report_progress(step + 1, steps, f"step {step + 1}")
        await anyio.sleep(0.01)
    return "done"


@server.tool()
async def hang(ledger: str) -> str:
    """Never ends by itself; records the cancellation."""
    with open(ledger, "a") as file:
        file.write("begun\n")
    try:
        await anyio.sleep_forever()
    finally:
        with open(ledger, "a") as file:
            file.write("cancelled\n")
    return ""


@server.tool()
async def grow(context: Context) -> str:
    """Lists one tool more from now on."""

    def grown() -> str:
        """A tool that came later."""
        return "grown"

    server.add_tool(grown)
    await context.notify_tools_changed()  # to subscribers
    await context.session.send_tool_list_changed()  # to clients of older protocols
    return "grown"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        transport = sys.argv[2] if len(sys.argv) > 2 else "streamable-http"
        server.run(transport, port=int(sys.argv[1]))  # type: ignore[call-overload]
    else:
        server.run("stdio")
