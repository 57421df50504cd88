"""Texts between a run and its child runs, as their models receive them. Pure."""

import json
from collections.abc import Iterable, Sequence
from uuid import UUID

from agents_app.types import Message
from agents_app.types.child_runs import ChildReport, ChildSpec, ChildState
from audit_app.kernel.shorten import one_line
from tools_app.run_progress import Progress

INSTRUCTIONS = (
    "You work on a part of another agent's task, as the workstream {name!r}. Your last message is your result: it "
    "goes to that agent, who sees nothing else of your work."
)
WRAP_UP = "80 % of your time is over. Finish now: answer with what you have; you have no more tools."
FINISH = "The task above yours is about to end. Finish now: answer with what you have; you have no more tools."
TERMINATE = "Stop this task{reason}. Answer within {seconds} seconds with what you have; you have no more tools."
REPORTED = (
    "The reports above came after your last answer. Nobody has written since then. Tell the person what matters "
    "to them; if nothing does, answer with an empty text, which is not sent."
)
WARNING = "[Workstream {workstream} ({launch_id})] {percent} % of its time is over."

_FORKED = "Of the task in the conversation above, do this part only:\n\n"
# Lines by which a parent learns what a person has asked of a child run.
_ASKED_BY_PERSON = {
    "message": "A person wrote to it: {text}",
    "pause_requested": "A person has paused it.",
    "resume_requested": "A person has resumed it.",
}
_LONGEST_QUOTE = 300
_MOST_FILES = 20
_STATES = {
    ChildState.RUNNING: "has a result and waits for your next message",
    ChildState.COMPLETED: "completed",
    ChildState.FAILED: "failed",
    ChildState.TIMEOUT: "ran out of time",
    ChildState.CANCELED: "was cancelled",
}


def task_text(spec: ChildSpec) -> str:
    """Return the first message to a child run."""
    text = spec.instruction if spec.fork_step is None else _FORKED + spec.instruction
    if not spec.context:
        return text
    return f"{text}\n\nContext:\n{json.dumps(spec.context, ensure_ascii=False, indent=1)}"


def report_text(child: ChildReport, files: Sequence[str] = ()) -> str:
    """Return the message by which a parent receives the last result of a child run.

    The first line is ours; below it are the child's texts, which a request marks as data.
    files: paths of the files that it has written.
    """
    state = "is paused" if child.is_paused else _STATES.get(child.state, child.state.value)
    texts = () if child.is_paused else (child.error, child.result)
    more = f" and {len(files) - _MOST_FILES} more" if len(files) > _MOST_FILES else ""
    listed = f"Files: {', '.join(files[:_MOST_FILES])}{more}" if files else ""
    return "\n".join([f"[Workstream {child.workstream} ({child.launch_id}) {state}]", *filter(None, (*texts, listed))])


def progress_text(workstream: str, launch_id: UUID, progress: Progress) -> str:
    """Return the message by which a run learns of a child run's progress. The text below the first line is data."""
    return f"[Workstream {workstream} ({launch_id}) reports progress]\n{progress.line}"


def person_text(workstream: str, launch_id: UUID, command: str, text: str) -> str:
    """Return the line by which a parent learns of a message or a command of a person to a child run."""
    line = _ASKED_BY_PERSON.get(command, "A person gave it a direction: {text}")
    return f"[Workstream {workstream} ({launch_id})] {line.format(text=one_line(text, _LONGEST_QUOTE))}"


def merge_turns(turns: Sequence[Message], messages: Iterable[tuple[int, Message]]) -> tuple[Message, ...]:
    """Return user turns with the messages inserted, each at its position among all."""
    merged = list(turns)
    for position, message in messages:
        merged.insert(position, message)
    return tuple(merged)
