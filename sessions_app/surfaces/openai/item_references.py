"""Items of a Responses request that stand for others: references to items of earlier responses, and summaries.

Clients that rely on stored responses, such as the AI SDK, send `{"type": "item_reference", "id"}` from their second
request on. API reference, Responses, "Item reference".
"""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User

from agents_app import selectors as agents
from audit_app.kernel.errors import NotFound
from sessions_app.access import access_execution, access_run, access_session
from sessions_app.models import Turn
from sessions_app.surfaces.openai import compaction_items, files
from sessions_app.surfaces.openai.chat_messages import MOST_MESSAGES
from sessions_app.surfaces.openai.responses import function_call

_HEX = 32
# Items that a conversation repeats by itself: tools run on our side.
_REPEATED = ("mcp_", "rs_")


def resolve_references(user: User, body: Any) -> Any:
    """Return the body of a request with the items and the files that its input stands for. Synchronous; reads only.

    A body without such items, or with more items than are allowed, is returned as it is. Raises NotFound
    (item_not_found) for an unknown item and for one of another user, and what `compaction_items.text_of` and
    `files.with_contents` raise.
    """
    return files.with_contents(user, _with_items(user, body), "input")


def _with_items(user: User, body: Any) -> Any:
    items = body.get("input") if isinstance(body, Mapping) else None
    if not isinstance(items, list) or len(items) > MOST_MESSAGES or not any(map(_stands_for_another, items)):
        return body
    resolved = [_resolved(user, item) if _stands_for_another(item) else item for item in items]
    return {**body, "input": [item for item in resolved if item is not None]}


def _stands_for_another(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("type") in ("item_reference", compaction_items.TYPE)


def _resolved(user: User, item: Mapping[str, Any]) -> dict[str, Any] | None:
    if item["type"] == compaction_items.TYPE:
        # Not of the user: anything that the agent has read may speak in a summary.
        return {
            "type": "message",
            "role": "assistant",
            "content": compaction_items.text_of(item.get("encrypted_content")),
        }
    return _find(user, str(item.get("id")))


def _find(user: User, item_id: str) -> dict[str, Any] | None:
    if item_id.startswith(_REPEATED):
        return None
    try:
        if item_id.startswith("fc_"):
            call = access_execution(user, UUID(hex=item_id.removeprefix("fc_")))
            _check_stored(user, call.session_id)
            return function_call(call)
        return _message(user, item_id.removeprefix("msg_"))
    except (NotFound, ValueError):
        raise NotFound(f"Item with id {item_id!r} not found.", code="item_not_found", param="input") from None


def _message(user: User, name: str) -> dict[str, Any]:
    """Return the message of a name: that of a turn, or that of a run and its step (`responses.message_id`)."""
    owner, step = UUID(hex=name[:_HEX]), name[_HEX:]
    if step:
        run = access_run(user, owner)
        _check_stored(user, run.conversation_id)
        text = agents.find_step_text(run.id, int(step))
        if text is None:
            raise NotFound
        return {"type": "message", "role": "assistant", "content": text}
    turn = Turn.objects.filter(pk=owner, role__in=("user", "assistant", "system")).first()
    if turn is None:
        raise NotFound
    _check_stored(user, turn.session_id)
    return {"type": "message", "role": turn.role, "content": turn.content}


def _check_stored(user: User, session_id: UUID) -> None:
    """Raise NotFound for a session of others, and for one of responses that are not stored."""
    if access_session(user, session_id).is_temporary:
        raise NotFound
