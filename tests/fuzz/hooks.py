"""Adjusts the requests of schemathesis: every other id exists, and no process is started and no server reached."""

import json
import os
from typing import Any

import schemathesis

IDS: dict[str, str] = json.loads(os.environ.get("KOMAND_FUZZ_IDS", "{}"))
# An MCP server is a command that would run on this machine, or a URL that would be requested.
_HARMLESS = {"command": "/bin/false", "url": "http://127.0.0.1:9/mcp", "arguments": []}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    path, method = case.operation.path, case.method.upper()
    if case.path_parameters and method != "DELETE":  # existing objects are kept
        prefix = "agent_" if path.startswith("/api/v1/") else ""
        for name, value in list(case.path_parameters.items()):
            known = IDS.get(prefix + name, IDS.get(name))
            if known and len(str(value)) % 2:
                case.path_parameters[name] = known
    if path.startswith("/api/mcp/servers") and isinstance(case.body, dict):
        for name, value in _HARMLESS.items():
            if name in case.body:
                case.body[name] = value
