"""The items of a conversation: those that clients have added, and the input and output of its responses. Reads only.

Items of a response have the ids that they have there. API reference, Conversations, "Items".
"""

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from agents_app import selectors as agents
from agents_app.types import RunTranscript
from agents_app.types.runs import StepView
from audit_app.kernel.errors import NotFound
from audit_app.kernel.json_text import as_json
from sessions_app import selectors
from sessions_app.conversation import branches
from sessions_app.models import Attachment, Session, Turn
from sessions_app.surfaces.base.function_tools import call_id_of
from sessions_app.surfaces.openai import responses
from sessions_app.surfaces.openai.annotations import CitedByStep
from sessions_app.surfaces.openai.responses import output_of, text_part
from tools_app import selectors as tools
from tools_app.types import ExecutionStatus, ExecutionView

_HEX = 32
Item = dict[str, Any]


class Page(NamedTuple):
    items: Sequence[Item]
    has_more: bool = False

    @property
    def as_sent(self) -> dict[str, Any]:
        first, last = (self.items[0]["id"], self.items[-1]["id"]) if self.items else (None, None)
        data = list(self.items)
        return {"object": "list", "data": data, "first_id": first, "last_id": last, "has_more": self.has_more}


def list_items(session: Session, *, limit: int, newest_first: bool, after: str = "") -> Page:
    """Return a page of the items on the active branch. after: id of the item before it. Raises NotFound.

    A run or an import is one place of the session, with at least one item mostly: no more places are read than items.
    """
    turns = _turns(session)
    if after:
        turns = turns.filter(**{"ordinal__lte" if newest_first else "ordinal__gte": _ordinal_of(session, after)})
    order = "-ordinal" if newest_first else "ordinal"
    places = list(turns.order_by(order).values_list("ordinal", flat=True).distinct()[: limit + 2])
    found = _items_of(turns.filter(ordinal__in=places))
    found = found[::-1] if newest_first else found
    if after:
        ids = [item["id"] for item in found]
        if after not in ids:
            raise _not_found(after)
        found = found[ids.index(after) + 1 :]
    return Page(found[:limit], len(found) > limit or len(places) > limit + 1)


def find_item(session: Session, item_id: str) -> Item:
    """Return one item. Raises NotFound (item_not_found)."""
    items = _items_of(_turns(session).filter(ordinal=_ordinal_of(session, item_id)))
    found = next((item for item in items if item["id"] == item_id), None)
    if found is None:
        raise _not_found(item_id)
    return found


def find_turn(session: Session, item: Item) -> Turn | None:
    """Return the turn that a message is, None for items that are no message."""
    if item["type"] != "message":
        return None
    name = item["id"].removeprefix("msg_")
    owner, step = UUID(hex=name[:_HEX]), name[_HEX:]
    if not step:
        return Turn.objects.filter(pk=owner, session=session).first()
    turns = Turn.objects.filter(run_id=owner, session=session, role="assistant").order_by("part")
    return turns[int(step) : int(step) + 1].first()


def items_of_import(turns: Sequence[Turn]) -> list[Item]:
    """Return the items of turns that no run has stored."""
    files = selectors.attachments_of(turns)
    return [item for turn in turns for item in _imported(turn, files.get(turn.pk, ()))]


def _turns(session: Session) -> QuerySet[Turn]:
    path = branches.turns_of(session.pk, session.active_branch)
    return Turn.objects.filter(path, session=session).exclude(role__in=Turn.CONTEXT_ROLES)


def _items_of(turns: QuerySet[Turn]) -> list[Item]:
    """Return the items of whole places of a session, the oldest first."""
    found: list[Item] = []
    for run_id, group in groupby(turns.order_by("ordinal", "part"), attrgetter("run_id")):
        of_run = list(group)
        found += _of_run(run_id, of_run) if run_id else items_of_import(of_run)
    return found


def _of_run(run_id: UUID, turns: Sequence[Turn]) -> list[Item]:
    """Return the items of a run, whose output belongs to the conversation once it has ended."""
    files = selectors.attachments_of(turns)
    asked = [_message(turn, files.get(turn.pk, ())) for turn in turns if turn.role == "user"]
    transcript = agents.get_transcript(run_id)
    if not transcript.run.status.is_terminal:
        return asked
    texts = list(Turn.objects.filter(run_id=run_id, role="assistant").only("branch", "citations").order_by("part"))
    cited = {step: selectors.citations_of(turn) for step, turn in enumerate(texts) if turn.citations}
    removed = {responses.message_id(run_id, at) for at, turn in enumerate(texts) if turn.branch == branches.REMOVED}
    return [*asked, *(item for item in _output(transcript, cited) if item["id"] not in removed)]


def _output(transcript: RunTranscript, cited: CitedByStep) -> Iterator[Item]:
    """Yield the output of an ended run, with its reasoning, and with the outputs of its client's tools."""
    run_id = transcript.run.id
    items = {item["id"]: item for item in output_of(transcript, cited)}
    for step in transcript.steps:
        calls = [one for one in transcript.executions if one.step == step.index]
        ids = [responses.message_id(run_id, step.index), *(responses.tool_call(call)["id"] for call in calls)]
        own = [items.pop(item_id) for item_id in ids if item_id in items]
        if own and step.reasoning:
            yield _reasoning(run_id, step)
        yield from own
        answered = [call for call in calls if call.client_until and call.status is ExecutionStatus.COMPLETED]
        yield from map(_call_output, answered)
    yield from items.values()


def _reasoning(run_id: UUID, step: StepView) -> Item:
    content = [{"type": "reasoning_text", "text": step.reasoning}]
    item_id = f"rs_{run_id.hex}{step.index:02d}"
    return {"id": item_id, "type": "reasoning", "summary": [], "content": content, "status": "completed"}


def _call_output(call: ExecutionView) -> Item:
    value = json.loads(call.output or '""')
    return _output_item(call.id, call_id_of(call.id), value if isinstance(value, str) else as_json(value))


def _output_item(of: UUID, call_id: str, output: str) -> Item:
    fields = {"call_id": call_id, "output": output, "status": "completed"}
    return {"id": f"fco_{of.hex}", "type": "function_call_output", **fields}


def _imported(turn: Turn, files: Sequence[Attachment]) -> Iterator[Item]:
    if turn.role == "tool":
        yield _output_item(turn.pk, turn.tool_call_id, turn.content)
        return
    if turn.content or files or not turn.tool_calls:
        yield _message(turn, files)
    for number, call in enumerate(turn.tool_calls):
        fields = {"call_id": call["id"], "name": call["name"], "arguments": call["arguments"]}
        yield {"id": f"fc_{turn.pk.hex}{number:02d}", "type": "function_call", **fields, "status": "completed"}


def _message(turn: Turn, files: Sequence[Attachment]) -> Item:
    if turn.role == "assistant":
        content = [text_part(turn.content, [])]
        return {**responses.user_item(turn.pk, ""), "role": "assistant", "content": content}
    item = {**responses.user_item(turn.pk, turn.content), "role": turn.role}
    item["content"] += [{"type": "input_file", "filename": file.filename or file.kind} for file in files]
    return item


def _ordinal_of(session: Session, item_id: str) -> int:
    """Return the place of an item: its id names a turn, a run or a tool execution."""
    try:
        named = UUID(hex=item_id.partition("_")[2][:_HEX])
    except ValueError:
        raise _not_found(item_id) from None
    turn = Turn.objects.filter(pk=named, session=session).values_list("ordinal", flat=True).first()
    if turn is not None:
        return turn
    try:
        run = agents.get_run(
            tools.get_execution(named).run_id if item_id.startswith(("fc_", "fco_", "mcp_")) else named
        )
    except NotFound:
        raise _not_found(item_id) from None
    if run.conversation_id != session.pk:
        raise _not_found(item_id)
    return run.ordinal


def _not_found(item_id: str) -> NotFound:
    return NotFound(f"Item with id {item_id!r} not found in this conversation.", code="item_not_found", param="item_id")
