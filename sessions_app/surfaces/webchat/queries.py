"""Reading of what a visitor's page shows: messages, answers and prompts of its conversation. Synchronous."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from agents_app.events import RUN_ENDS
from sessions_app.attachments import records
from sessions_app.channels.outbound import prompts, question_prompts
from sessions_app.conversation.inbound_record import storable_key
from sessions_app.events import MESSAGE_RECEIVED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.models import ChannelAccount, Delivery, InboundMessage, Turn
from sessions_app.surfaces.base.markdown import render
from tools_app.events import APPROVAL_REQUESTED, INPUT_REQUESTED, TOOL_COMPLETED
from tools_app.types.executions import parsed_output

_PROMPTS = {APPROVAL_REQUESTED.name: ("approval", "approval_id"), INPUT_REQUESTED.name: ("question", "request_id")}
_READ = {MESSAGE_RECEIVED.name, *_PROMPTS, *RUN_ENDS}
_MOST_PARTS = 10


@dataclass(frozen=True)
class SentMessage:
    """A message of the visitor. files: their names."""

    text: str
    files: tuple[str, ...] = ()


@dataclass(frozen=True)
class Prompt:
    """A request to the visitor. buttons: label, action id, style of each."""

    kind: str
    markdown: str
    buttons: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Details:
    """Data beside the events of a frame: messages by turn, answers by run, prompts by their key in the outbox.

    texts: of the steps before the last one of each run that has ended, with their numbers.
    """

    messages: Mapping[str, SentMessage] = field(default_factory=dict)
    answers: Mapping[UUID, str] = field(default_factory=dict)
    prompts: Mapping[str, Prompt] = field(default_factory=dict)
    texts: Mapping[UUID, Sequence[tuple[int, str]]] = field(default_factory=dict)


def needs_details(frame: Iterable[SessionEvent]) -> bool:
    return any(event.type in _READ for event in frame)


def read_details(account: ChannelAccount, frame: Sequence[SessionEvent]) -> Details:
    """Return what the events of a frame need to be shown."""
    return Details(_messages(frame), _answers(account, frame), _prompts(account, frame), _texts(frame))


def prompt_key(event: SessionEvent) -> str:
    """Return the key in the outbox of the prompt that an event announces, empty for other events."""
    kind, field_name = _PROMPTS.get(event.type, ("", ""))
    return f"{kind}:{event.payload[field_name]}" if kind else ""


def question_outcome(event: SessionEvent) -> dict[str, str]:
    """Return the outcome of a question that is over, with the answer if that is one text."""
    if event.type != TOOL_COMPLETED.name:
        return {"outcome": "ended"}
    given = parsed_output(TOOL_COMPLETED.payload(event)["output"])
    answer = given.get("answer") if isinstance(given, dict) else None
    return {"outcome": "answered", **({"answer": answer} if isinstance(answer, str) else {})}


def html_of(markdown: str) -> str:
    """Return the sanitised HTML of a text. Raw HTML in it is text, and remote images are links."""
    return str(render(markdown)) if markdown else ""


def find_received(account: ChannelAccount, key: str) -> InboundMessage | None:
    """Return the stored message or button press with that key."""
    return InboundMessage.objects.filter(keys__account_id=account.pk, keys__key=storable_key(key)).first()


def find_notice(account: ChannelAccount, key: str) -> str:
    """Return the text of the notice that answers a stored message or button press, empty if there is none."""
    row = find_received(account, key)
    names = [f"inbound:{row.pk}:{part}" for part in range(_MOST_PARTS)] if row and row.reason else []
    bodies = Delivery.objects.filter(account=account, dedupe_key__in=names).order_by("part").values_list("body")
    return "\n\n".join(body for (body,) in bodies)


def _messages(frame: Sequence[SessionEvent]) -> dict[str, SentMessage]:
    names = [str(event.payload["turn_id"]) for event in frame if event.type == MESSAGE_RECEIVED.name]
    if not names:
        return {}
    turns = Turn.objects.filter(pk__in=names, role="user", is_off_path=False).only("content")
    files = records.list_of([turn.pk for turn in turns])
    return {
        str(turn.pk): SentMessage(turn.content, tuple(file.filename or file.kind for file in files.get(turn.pk, ())))
        for turn in turns
    }


def _answers(account: ChannelAccount, frame: Sequence[SessionEvent]) -> dict[UUID, str]:
    ended = [event.run_id for event in frame if event.run_id and event.type in RUN_ENDS]
    if not ended:
        return {}
    parts: dict[UUID, list[str]] = defaultdict(list)
    rows = Delivery.objects.filter(account=account, run_id__in=ended, kind__in=("answer", "failure"))
    for run_id, body in rows.order_by("id").values_list("run_id", "body"):
        if run_id:
            parts[run_id].append(body)
    return {run_id: "\n\n".join(filter(None, bodies)) for run_id, bodies in parts.items()}


def _texts(frame: Sequence[SessionEvent]) -> dict[UUID, list[tuple[int, str]]]:
    ended = [event.run_id for event in frame if event.run_id and event.type in RUN_ENDS]
    found: dict[UUID, list[tuple[int, str]]] = {}
    turns = Turn.objects.filter(run_id__in=ended, role="assistant").order_by("run_id", "part")
    for run_id, content in turns.values_list("run_id", "content") if ended else ():
        if run_id:
            steps = found.setdefault(run_id, [])
            steps.append((len(steps), content))
    return found


def steps_of(answer: str, texts: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the parts of an answer by the steps that wrote them. What belongs to none is in the last part."""
    parts, rest = [], answer
    for step, text in texts[:-1]:
        if text.strip() and rest.startswith(text.strip()):
            parts.append((step, text.strip()))
            rest = rest.removeprefix(text.strip()).lstrip("\n")
    last = texts[-1][0] if texts else 0
    return [*parts, (last, rest)] if rest else parts


def _prompts(account: ChannelAccount, frame: Sequence[SessionEvent]) -> dict[str, Prompt]:
    keys = [*filter(None, map(prompt_key, frame))]
    found = _find_prompts(account, keys) if keys else {}
    if len(found) < len(keys):
        # The sweep stores prompts once a second. A button can be pressed only then, so the page does not wait for it.
        prompts.sweep()
        question_prompts.sweep()
        found = _find_prompts(account, keys)
    return found


def _find_prompts(account: ChannelAccount, keys: Iterable[str]) -> dict[str, Prompt]:
    names = {f"{key}:{part}": key for key in keys for part in range(_MOST_PARTS)}
    parts: dict[str, list[Delivery]] = defaultdict(list)
    for row in Delivery.objects.filter(account=account, dedupe_key__in=names).order_by("part"):
        parts[names[row.dedupe_key]].append(row)
    return {
        key: Prompt(
            key.partition(":")[0],
            "\n\n".join(row.body for row in rows),
            tuple((label, action, style) for row in rows for label, action, style in row.buttons),
        )
        for key, rows in parts.items()
    }
