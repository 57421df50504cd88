"""MCP servers that violate the protocol: `python bad.py HOW`. Without the SDK, which would prevent that."""

import json
import os
import subprocess
import sys
import time
from typing import Any


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tools(how: str) -> list[dict[str, Any]]:
    version = os.environ.get("TOOL_VERSION", "1")
    tool: dict[str, Any] = {
        "name": "act",
        "description": f"Acts, version {version}.",
        "inputSchema": {"type": "object"},
    }
    if how == "lie":
        tool["outputSchema"] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    if how == "silent-lie":
        tool["outputSchema"] = {"type": "object"}
    if how == "bomb":  # each level refers to the next one twice; and a pattern that never ends
        levels = {f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(30)}
        slow = {"properties": {"n": {"pattern": "^(a+)+$"}}}
        tool["outputSchema"] = {"type": "object", "$ref": "#/$defs/l0", "$defs": {**levels, "l30": slow}}
    if how == "odd-tools":
        odd = [
            {"name": "outside", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1:1/schema"}},
            {"name": "no-schema", "inputSchema": {"type": "object", "properties": {"a": {"type": "text"}}}},
            {"name": "x" * 300, "inputSchema": {"type": "object"}},
            {"name": "a.b", "inputSchema": {"type": "object", "properties": {"timeout_seconds": {"type": "integer"}}}},
            {"name": "a_b", "inputSchema": {"type": "object"}},
        ]
        return [tool, *odd]
    return [tool]


def act(how: str, number: Any) -> None:
    match how:
        case "crash":
            sys.stderr.write("about to crash\n")
            sys.stderr.flush()
            os._exit(3)
        case "lie":
            send({"id": number, "result": {"content": [], "structuredContent": {"n": "many"}}})
        case "silent-lie":
            send({"id": number, "result": {"content": []}})
        case "bomb":
            send({"id": number, "result": {"content": [], "structuredContent": {"n": "a" * 40 + "!"}}})
        case "nonsense":
            send({"id": number, "result": {"content": "not a list"}})
        case "huge":
            send({"id": number, "result": {"content": [{"type": "text", "text": "x" * 8_000_000}]}})
        case "endless":
            while True:
                sys.stdout.write("x" * 65536)
        case "chatter":
            while True:
                send({"method": "notifications/message", "params": {"level": "info", "data": "and another thing"}})
        case "hang-call":
            time.sleep(3600)
        case "key":
            text = f"a key of {len(os.environ.get('API_KEY', ''))} characters"
            send({"id": number, "result": {"content": [{"type": "text", "text": text}]}})
        case _:
            send({"id": number, "result": {"content": [{"type": "text", "text": "acted"}]}})


def main(how: str) -> None:
    if how == "dies":
        sys.stderr.write("no licence found\n")
        sys.exit(1)
    if how == "babble":
        sys.stdout.write("Welcome to my server!\n")
    if how == "child":  # leaves a process that ignores SIGTERM
        deaf = "import signal, time\nsignal.signal(15, signal.SIG_IGN)\ntime.sleep(3600)"
        child = subprocess.Popen([sys.executable, "-S", "-c", deaf])
        with open("child.pid", "w") as file:
            file.write(str(child.pid))
    if how == "hang":
        time.sleep(3600)
    for line in sys.stdin:
        message = json.loads(line)
        method, number = message.get("method"), message.get("id")
        if method == "initialize":
            info = {"name": how, "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
            send({"id": number, "result": result})
        elif method == "tools/list":
            send({"id": number, "result": {"tools": tools(how)}})
        elif method == "tools/call":
            act(how, number)
        elif method == "ping":
            send({"id": number, "result": {}})
        elif number is not None:
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})
    if how == "stubborn":
        while True:
            time.sleep(3600)


if __name__ == "__main__":
    main(sys.argv[1])
