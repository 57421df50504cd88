"""The command /agents: lists the workstreams of a conversation, shows one, writes to some, and pauses or stops them."""

import re
from collections.abc import Sequence

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.types.child_runs import ChildState, ChildView, Phase, title_of
from audit_app.kernel.errors import AppError
from audit_app.kernel.redact import masked
from audit_app.kernel.shorten import one_line, shorten
from sessions_app.channels.inbound.commands import record
from sessions_app.channels.outbound.outbox import Destination
from sessions_app.conversation.inbound_record import InboundRecord
from sessions_app.conversation.session_key import SessionKey
from sessions_app.models import Session
from sessions_app.platforms.sender_actors import sender_actor
from sessions_app.services import ask_workstream, cancel_session_runs
from tools_app import selectors as tools
from tools_app.run_progress import find_progress

_AGENTS = "/agents"
_REASON = "command_agents"
_ALL = "all"
_RANGE = r"\d{1,6}(?:\s*-\s*\d{1,6})?"
_CHOICE = re.compile(rf"(?P<numbers>all|{_RANGE}(?:\s*,\s*{_RANGE})*)(?:\s+(?P<rest>.*))?", re.DOTALL | re.IGNORECASE)
_STEER = re.compile(r"steer\s+(?P<text>.+)", re.DOTALL | re.IGNORECASE)
_MOST_CHOSEN = 200
_NONE = "No workstream is working here."
_USAGE = (
    "`/agents 2` shows one, `/agents 2 TEXT` writes to it, `/agents 2 steer TEXT` gives it an instruction, "
    "`/agents 2 pause`, `resume` or `stop` does that. "
    "In place of the number: several, such as `1,3` or `1-12`, or `all`."
)
_COMMANDS = {"pause": runs.PAUSE, "resume": runs.RESUME}
_STOP = "stop"
_DONE = {"pause": "Paused", "resume": "Resumed", _STOP: "Stopped"}
_MOST_SHOWN, _MOST_LISTED = 5, 40
_LONGEST_TITLE, _LONGEST_TEXT = 120, 1_500
_PHASES = {
    Phase.PLANNING: "planning",
    Phase.EXECUTING_TOOL: "using a tool",
    Phase.SYNTHESIZING: "writing",
    Phase.BLOCKED: "waiting for its workstreams",
}
_ASKS = {"approval": "waiting for an approval", "input": "waiting for your answer"}


def handle(arrival: InboundRecord, destination: Destination, key: SessionKey, text: str) -> None:
    """Carry out `/agents`, once."""
    session = Session.objects.select_related("agent").filter(key=str(key)).first()
    if arrival.find_earlier() is None:  # what it does takes locks of its own, so it is outside of `record`
        given = text.partition(_AGENTS)[2].strip()
        reply = _reply(session, given, arrival) if session else _NONE
        record(arrival, _REASON, destination, reply, session=session)


def _reply(session: Session, given: str, arrival: InboundRecord) -> str:
    if not given:
        return _listed(agents.list_workstreams(session.id))
    choice = _CHOICE.fullmatch(given)
    if choice is None:
        return _USAGE
    is_all, rest = choice["numbers"].lower() == _ALL, (choice["rest"] or "").strip()
    numbers = [] if is_all else _numbers(choice["numbers"])
    if len(numbers) > _MOST_CHOSEN:
        return f"At most {_MOST_CHOSEN} workstreams can be named at once."
    chosen = agents.list_workstreams(session.id, numbers)
    if missing := [number for number in numbers if number not in {view.number for view in chosen}]:
        return f"There is no workstream {missing[0]}. `/agents` lists them."
    if not chosen:
        return _NONE
    if not rest:
        return "\n\n".join(_shown(view) for view in chosen[:_MOST_SHOWN])
    return _asked(session, chosen, rest, arrival)


def _numbers(given: str) -> list[int]:
    """Return the numbers of a list such as `1,4-6`, at most one too many."""
    found: list[int] = []
    for part in given.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)[: _MOST_CHOSEN + 1]
    return list(dict.fromkeys(found))[: _MOST_CHOSEN + 1]


def _listed(views: Sequence[ChildView]) -> str:
    if not views:
        return _NONE
    lines = [f"- `{view.number}` {_title(view)}: {_state(view)}" for view in views[-_MOST_LISTED:]]
    return "\n".join([*lines, f"\n{_USAGE}"])


def _shown(view: ChildView) -> str:
    """Return the state of a workstream, its progress, and its result or the last text that it has written."""
    progress = None if view.ended_at else find_progress(tools.list_executions(view.launch_id))
    steps = [step.text for _, step in agents.list_steps_of([view.launch_id]) if step.text.strip()]
    percent = f" ({progress.percent} %)" if progress and progress.percent is not None else ""
    parts = [
        f"`{view.number}` {_title(view)}: {_state(view)}",
        f"{progress.text}{percent}" if progress else "",
        view.error if view.state is not ChildState.COMPLETED else "",
        shorten(view.result if view.ended_at and view.result else steps[-1] if steps else "", _LONGEST_TEXT),
    ]
    return "\n\n".join(str(masked(part)) for part in parts if part)


def _asked(session: Session, chosen: Sequence[ChildView], rest: str, arrival: InboundRecord) -> str:
    """Carry out the command for each workstream, or send it the text. Return the reply."""
    command, done, refused = rest.lower(), [], []
    for view in chosen:
        try:
            _ask(session, view, rest, arrival)
            done.append(str(view.number))
        except AppError as error:
            refused.append(f"`{view.number}` {_title(view)}: {error.message}")
    label = _DONE.get(command, "Steered" if _STEER.fullmatch(rest) else "Sent to")
    lines = [f"{label}: {', '.join(done)}."] if done else []
    return "\n".join([*lines, *refused])


def _ask(session: Session, view: ChildView, rest: str, arrival: InboundRecord) -> None:
    command = rest.lower()
    if command == _STOP:
        cancel_session_runs(session, reason="Stopped.", run_id=view.launch_id)
        return
    actor = sender_actor(session.channel, session.account_id, arrival.row.sender_id)
    steered = _STEER.fullmatch(rest)
    text, name = ("", _COMMANDS[command]) if command in _COMMANDS else (rest, runs.MESSAGE)
    if steered:
        text, name = steered["text"], runs.ADD_INSTRUCTION
    ask_workstream(session, view.launch_id, text, command=name, actor=actor, key=arrival.keys[0])


def _title(view: ChildView) -> str:
    return one_line(str(masked(title_of(view.path))), _LONGEST_TITLE).replace("`", "'")


def _state(view: ChildView) -> str:
    if view.ended_at is not None:
        return {ChildState.COMPLETED: "done", ChildState.TIMEOUT: "ran out of time"}.get(view.state, view.state.value)
    if view.state is ChildState.CANCELING:
        return "finishing"
    if view.asks:
        return _ASKS[view.asks]
    if view.is_paused:
        return "paused"
    if view.is_idle:
        return "waiting for a message"
    return f"using {view.current_tool}" if view.current_tool else _PHASES[view.phase]


COMMANDS = {_AGENTS: handle}
