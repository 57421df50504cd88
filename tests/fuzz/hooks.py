"""Adjusts the requests of schemathesis: every other id exists, no process is started and no server reached.

Most requests of A2A have the version that is supported.
"""

import json
import os
from typing import Any

import schemathesis

IDS: dict[str, str] = json.loads(os.environ.get("KOMAND_FUZZ_IDS", "{}"))
# Of ids whose parameter has the same name as another one's.
_PREFIXES = {"/api/v1/": "agent_", "/a2a/": "a2a_", "/zeroclaw/": "zeroclaw_"}
# An MCP server is a command that would run on this machine, or a URL that would be requested.
_HARMLESS = {"command": "/bin/false", "url": "http://127.0.0.1:9/mcp", "arguments": []}


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: dict[str, Any]) -> None:
    path, method = case.operation.path, case.method.upper()
    if case.path_parameters and method != "DELETE":  # existing objects are kept
        prefix = next((prefix for start, prefix in _PREFIXES.items() if path.startswith(start)), "")
        for name, value in list(case.path_parameters.items()):
            known = IDS.get(prefix + name, IDS.get(name))
            if known and len(str(value)) % 2:
                case.path_parameters[name] = known
    if path.startswith("/a2a/") and len(str(case.body)) % 4:  # every other version is refused
        case.headers["A2A-Version"] = "1.0"
    if path.startswith("/api/mcp/servers") and isinstance(case.body, dict):
        for name, value in _HARMLESS.items():
            if name in case.body:
                case.body[name] = value
