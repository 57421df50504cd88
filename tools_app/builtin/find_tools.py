"""`find_tools`: finds tools of the run that its model calls do not list. Later calls of the run list what it found."""

import re
from typing import Any

from audit_app.full_text import bm25
from audit_app.full_text.query import like
from tools_app import run_tools
from tools_app.parameters import parameters, text
from tools_app.profiles import FIND_TOOLS
from tools_app.types import Effect, Reads, Risk, Tool, ToolContext, ToolSpec

_MOST_FOUND = 5
_BETWEEN_WORDS = re.compile(r"[_-]+")


class FindTools(Tool):
    needs_run = True
    spec = ToolSpec(
        name=FIND_TOOLS,
        description="Find more of your tools.",
        parameters=parameters("query", query=text("", minLength=1, maxLength=500)),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=10,
        reads=Reads.NOTHING,
        sends=(),
    )

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"tools": [{"name", "description", "parameters", "required"}], "total": of all hidden tools}.

        tools: best first. parameters, required: names only; the next model call lists the tools in full.
        """
        hidden = run_tools.list_hidden(context.run_id)
        best = bm25.rank([_text(spec) for spec in hidden], like(arguments["query"]))[:_MOST_FOUND]
        return {"tools": [_summary(hidden[at]) for at in best], "total": len(hidden)}


def _text(spec: ToolSpec) -> str:
    """Return the text by which a tool is found. The words of its name count double."""
    name = _BETWEEN_WORDS.sub(" ", spec.name)
    return f"{name} {name} {spec.description} {' '.join(_names(spec))}"


def _names(spec: ToolSpec) -> list[str]:
    return list(spec.parameters.get("properties", {}))


def _summary(spec: ToolSpec) -> dict[str, Any]:
    required = list(spec.parameters.get("required", ()))
    return {"name": spec.name, "description": spec.description, "parameters": _names(spec), "required": required}
