"""This surface in the OpenAPI document: the fields of RunAgentInput that it reads."""

from sessions_app.surfaces.ag_ui.requests import LONGEST_ID, MOST_ENTRIES, MOST_MESSAGES
from sessions_app.surfaces.base.function_tools import MOST_TOOLS
from sessions_app.surfaces.base.openapi.operations import Description
from sessions_app.surfaces.base.openapi.schemas import ANYTHING, OBJECT, TEXT, Schema, about, one_of, record

_ABOUT = "Runs of agents for front ends, as events of AG-UI 1.0. See docs/ag-ui.md."
_ID: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
_RESUMED = {"interruptId": TEXT, "status": one_of(["resolved", "cancelled"]), "payload": ANYTHING}


def _list(item: Schema, most: int) -> Schema:
    return {"type": ["array", "null"], "items": item, "maxItems": most}


INPUT: Schema = record(
    {
        "threadId": about(_ID, "Names the conversation, among those of the user with this agent."),
        "runId": about(_ID, "Names the run. With the id of an earlier one, that one is shown."),
        "messages": {"type": "array", "items": OBJECT, "maxItems": MOST_MESSAGES},
        "tools": _list(OBJECT, MOST_TOOLS),
        "context": _list(record({"description": TEXT, "value": TEXT}, open_ended=True), MOST_ENTRIES),
        "state": ANYTHING,
        "forwardedProps": ANYTHING,
        "resume": _list(record(_RESUMED, optional=["payload"], open_ended=True), MOST_ENTRIES),
    },
    optional=["tools", "context", "state", "forwardedProps", "resume"],
    open_ended=True,
)
COMPONENTS: dict[str, Schema] = {"AgUiError": record({"message": TEXT, "code": TEXT})}
DESCRIPTION = Description("AG-UI", _ABOUT, "AgUiError", COMPONENTS)
