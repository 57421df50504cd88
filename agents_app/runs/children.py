"""Child runs: start, message, steer and terminate them. Functions own their transactions or join the caller's."""

from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import starmap
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from agents_app import events, hot_queries
from agents_app.models import Agent, Run, RunMessage, Step, children_of
from agents_app.prompt import child_texts
from agents_app.runs import child_messages, run_events
from agents_app.runs.child_messages import RunNote
from agents_app.runs.next_step import TERMINATED
from agents_app.runs.run_events import event_of
from agents_app.runs.run_policy import restrictions_of_children
from agents_app.runs.transitions import ADVANCE, QUEUE, end
from agents_app.types import RunOptions, RunStatus, WaitingOn
from agents_app.types.child_runs import (
    FIRST_ORDINAL,
    GRACE_SECONDS,
    MOST_DEPTH,
    MOST_OPEN_CHILDREN,
    ChildSpec,
    MessageKind,
    Phase,
    RunKind,
)
from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import Conflict, InvalidInput, found
from audit_app.kernel.nudges import nudge
from tools_app.policy import emergency_stop

# Waits that last until a person or the parent writes.
_UNTIL_ASKED = (WaitingOn.PARENT.value, WaitingOn.APPROVAL.value, WaitingOn.INPUT.value)
_NO_CHILD = "There is no such workstream."

ADD_INSTRUCTION, SET_PRIORITY, ADD_CONSTRAINT = "add_instruction", "set_priority", "add_constraint"
PAUSE, RESUME = "pause_requested", "resume_requested"
_DIRECTIVES = {
    ADD_INSTRUCTION: "Further instruction: {text}",
    SET_PRIORITY: "Priority: {text}",
    ADD_CONSTRAINT: "Further constraint: {text}",
}
COMMANDS = (*_DIRECTIVES, PAUSE, RESUME)


@dataclass(frozen=True)
class NewChild:
    """A child run that is to be started.

    id: derived from what asks for it (`kernel.ids.derived_id`), so that a repeated request starts one child.
    workstream: name within the parent.
    agent: None for the parent's.
    options: model, tools and so on. They and the agent's own rights narrow those of the parent.
    budget_tokens: cap for the run and the runs below it, within the caps above; None: only those.
    """

    id: UUID
    parent_id: UUID
    workstream: str
    spec: ChildSpec
    agent: Agent | None = None
    kind: RunKind = RunKind.WORKSTREAM
    options: RunOptions = RunOptions()
    budget_tokens: int | None = None


class Checked(NamedTuple):
    """The state of a tree on which a launch depends, beside the row of the parent.

    is_started: the child run exists.
    open_children: number of the parent's; None for none.
    is_taken: one of them has the name.
    below_root: number of runs below the root; None for none.
    last_ordinal: of the child runs of the conversation.
    """

    is_started: bool
    open_children: int | None
    is_taken: bool
    below_root: int | None
    last_ordinal: int | None


def start_child(new: NewChild) -> Run:
    """Start a child run, and return it. Idempotent by its id. Owns its transaction.

    The parent is an open run, usually one that waits for the tool call which asks for the child. The child's result
    reaches the parent's model before its next call, see docs/workstreams.md. Raises NotFound, Conflict (run_ended,
    too_deep, too_many_workstreams, too_many_runs, workstream_exists) and Stopped.
    """
    with transaction.atomic():
        return start_below(lock_in_tree(new.parent_id), new)


def start_below(parent: Run, new: NewChild) -> Run:
    """Start a child run like `start_child`, in the caller's transaction. parent: as `lock_in_tree` has returned it."""
    key = {"run_id": parent.pk, "child_id": new.id, "workstream": new.workstream}
    [checked] = starmap(Checked, hot_queries.CHECK_LAUNCH.rows(**key, least=FIRST_ORDINAL))
    if checked.is_started:
        return found(hot_queries.GET_RUN.first(run_id=new.id), "There is no such run.")
    agent = new.agent or parent.agent
    _check(new, parent, checked)
    emergency_stop.check_running(agent.agent_id)
    child = Run(**_columns(new, parent, agent), ordinal=(checked.last_ordinal or FIRST_ORDINAL - 1) + 1)
    hot_queries.COUNT_CHILD.run(run_id=parent.pk)
    hot_queries.INSERT_RUN.run([child])
    task = RunMessage(run=child, position=0, kind=MessageKind.TASK.value, text=child_texts.task_text(new.spec))
    hot_queries.INSERT_RUN_MESSAGE.run([task])
    queued: events.RunQueued = {"ordinal": child.ordinal, "agent_id": agent.agent_id}
    audit.emit([run_events.launched(child), event_of(child, events.RUN_QUEUED, queued)])
    nudge(ADVANCE, str(child.id), queue=QUEUE)
    return child


def message_child(
    parent_id: UUID, child_id: UUID, text: str, *, key: UUID | None = None, kind: MessageKind = MessageKind.MESSAGE
) -> None:
    """Send a message to a child run; one that waits for its parent continues. Owns its transaction.

    key: key of the message; a second one with it is not sent.
    kind: MESSAGE of the parent, or PERSON.

    Raises NotFound, Conflict (workstream_ended).
    """
    with transaction.atomic():
        child = _lock_child(parent_id, child_id)
        if child.terminated_at or not child_messages.send(child.pk, RunNote(kind, text, key=key)):
            raise Conflict(f"The workstream {child.workstream} has ended.", code="workstream_ended")


def _check_command(command: str, text: str) -> None:
    if command not in COMMANDS:
        raise InvalidInput(f"Unknown command {command!r}. Known: {', '.join(COMMANDS)}.", code="unknown_command")
    if command in _DIRECTIVES and not text.strip():
        raise InvalidInput(f"{command} needs a text.", code="text_required")


def text_of(command: str, text: str) -> str:
    """Return the text that a child run receives with a command, or with a message."""
    return _DIRECTIVES[command].format(text=text) if command in _DIRECTIVES else text


def steer_child(
    parent_id: UUID, child_id: UUID, command: str, text: str = "", *, key: UUID | None = None, person: str = ""
) -> None:
    """Give a child run an instruction, pause it or let it continue. Owns its transaction.

    command: command of COMMANDS. A paused child stops before its next model call, and its deadline with it. It ends if
        it is not resumed within MOST_PAUSED_SECONDS.
    person: the actor, if a person commands it and not the parent.
    Raises NotFound, InvalidInput (unknown_command, text_required), Conflict (workstream_ended, paused_by_person).
    """
    _check_command(command, text)
    with transaction.atomic():
        child = _lock_child(parent_id, child_id)
        if child.ended_at or child.terminated_at:
            raise Conflict(f"The workstream {child.workstream} has ended.", code="workstream_ended")
        if command in _DIRECTIVES:
            resumes = child.waiting_on != WaitingOn.PARENT.value
            note = RunNote(MessageKind.DIRECTIVE, text_of(command, text), key=key, resumes=resumes)
            child_messages.send(child.pk, note)
        else:
            _pause_or_resume(child, command, person)


def _pause_or_resume(child: Run, command: str, person: str) -> None:
    if command == RESUME and child.paused_by and not person:
        raise Conflict("A person has paused this workstream: only a person resumes it.", code="paused_by_person")
    is_paused = command == PAUSE
    paused_by = (person or child.paused_by) if is_paused else ""
    is_idle = child.waiting_on == WaitingOn.PARENT.value
    limit = child_messages.paused(is_paused) if is_idle else {}
    Run.objects.filter(pk=child.pk).update(is_paused=is_paused, paused_by=paused_by, **limit)
    if command == RESUME and child.is_paused and not _has_answered(child):
        child_messages.resume_waiting(child.pk)


def _has_answered(child: Run) -> bool:
    """Return whether an interactive child run has answered all of its messages: there is nothing to resume."""
    last = Step.objects.filter(run_id=child.pk, kind=Step.MODEL).order_by("-index").first()
    return last is not None and not last.tool_calls and last.turns_seen >= child.user_turn_count


def terminate_child(parent_id: UUID, child_id: UUID, *, reason: str = "") -> bool:
    """End a child run. Idempotent; owns its transaction.

    One that works gets the instruction to finish, as do all below it, and is ended after GRACE_SECONDS. One that has
    not begun, or waits for its parent or a person, ends at once. Return False if it had ended. Raises NotFound.
    """
    with transaction.atomic():
        child = _lock_child(parent_id, child_id)
        if child.ended_at:
            return False
        if not child.terminated_at:
            _terminate(child, reason)
        return True


def _terminate(child: Run, reason: str) -> None:
    now = timezone.now()
    Run.objects.filter(pk=child.pk).update(terminated_at=now, alarm_at=now + timedelta(seconds=GRACE_SECONDS))
    child.terminated_at = now
    is_untouched = child.status == RunStatus.QUEUED.value
    if child.owner is None and (is_untouched or child.waiting_on in _UNTIL_ASKED):
        end(child, TERMINATED, held_by=None)
    else:
        _ask_to_end(child, reason)


def _ask_to_end(child: Run, reason: str) -> None:
    text = child_texts.TERMINATE.format(reason=f": {reason}" if reason else "", seconds=GRACE_SECONDS)
    child_messages.ask_to_finish(child, text)
    audit.emit([run_events.progressed(child, Phase.SYNTHESIZING, reason or "It was asked to end.")])


def lock_in_tree(run_id: UUID) -> Run:
    """Lock the root of a tree, then the given run of it, and return that, with its agent."""
    hot_queries.LOCK_ROOT.rows(run_id=run_id)
    return found(hot_queries.LOCK_RUN.first(run_id=run_id), "There is no such run.")


def _lock_child(parent_id: UUID, child_id: UUID) -> Run:
    """Lock a run and then its child, and return the child, after what it has for its parent was collected."""
    rows = Run.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
    found(rows.filter(pk=parent_id).first(), _NO_CHILD)
    child = found(rows.filter(children_of(parent_id), pk=child_id).first(), _NO_CHILD)
    child_messages.collect(parent_id)
    return child


def _check(new: NewChild, parent: Run, checked: Checked) -> None:
    if parent.ended_at or parent.cancel_requested_at or parent.terminated_at:
        raise Conflict("The run is ending, so it cannot start workstreams.", code="run_ended")
    if parent.depth >= MOST_DEPTH:
        raise Conflict(f"Workstreams can be nested {MOST_DEPTH} deep. Do this yourself.", code="too_deep")
    running = checked.open_children or 0
    if running >= MOST_OPEN_CHILDREN:
        raise Conflict(f"{running} workstreams run already. Wait for some of them.", code="too_many_workstreams")
    _check_tree(new, parent, checked.below_root or 0)
    if checked.is_taken:
        raise Conflict(f"A workstream {new.workstream!r} runs already.", code="workstream_exists")


def _check_tree(new: NewChild, parent: Run, below: int) -> None:
    """Raise Conflict if the tree has all runs that it may have. The definition of a network limits its tasks."""
    most = settings.KOMAND_MAX_RUNS_PER_MESSAGE
    if new.kind is RunKind.TASK:
        return
    if 1 + below + parent.child_spec.runs_before < most:
        return
    problem = f"This message has {most:,} runs, the most that one may have. Do the rest yourself."
    raise Conflict(problem, code="too_many_runs")


def _columns(new: NewChild, parent: Run, agent: Agent) -> dict[str, Any]:
    role = child_texts.INSTRUCTIONS.format(name=new.spec.name)
    instructions = "\n\n".join(text for text in (new.options.instructions, role) if text)
    may_have_budget = new.budget_tokens is not None or parent.may_have_budget
    above = [*parent.child_spec.path] if parent.parent_id else []
    set_at_start = {
        "above": above,
        "agents_above": sorted({*parent.child_spec.agents_above, parent.agent.agent_id} - {agent.agent_id}),
        "runs_before": parent.child_spec.runs_before,
        "may_have_budget": may_have_budget,
    }
    return {
        "id": new.id,
        "conversation_id": parent.conversation_id,
        "session_key": parent.session_key,
        "agent": agent,
        "parent_id": parent.pk,
        "root_id": parent.root_id or parent.pk,
        "kind": new.kind.value,
        "workstream": new.workstream,
        "depth": parent.depth + 1,
        "spec": {**vars(new.spec), **set_at_start},
        "session_policy": restrictions_of_children(parent),
        "options": replace(new.options, instructions=instructions).to_dict(),
        "actor": parent.actor,
        "request_id": context.request_id.get() or parent.request_id,
        "created_at": timezone.now(),
        **child_messages.deadline_started(new.spec.deadline_seconds),
        "budget_tokens": new.budget_tokens,
    }
