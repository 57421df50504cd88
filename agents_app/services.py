"""Writes of runs (start, cancel, retry) and agents (create, update, retire, restore) for other apps."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import conversation_port, events, hot_queries
from agents_app.configuration import agent_versions
from agents_app.configuration.agents import DEFAULT_AGENT as DEFAULT_AGENT
from agents_app.configuration.agents import apply_configuration as apply_configuration
from agents_app.configuration.agents import create_agent as create_agent
from agents_app.configuration.agents import publish_draft as publish_draft
from agents_app.configuration.agents import restore_agent as restore_agent
from agents_app.configuration.agents import retire_agent as retire_agent
from agents_app.configuration.agents import roll_back as roll_back
from agents_app.configuration.agents import save_draft as save_draft
from agents_app.configuration.agents import update_agent as update_agent
from agents_app.models import IS_OPEN, IS_ROOT, Agent, Run
from agents_app.runs import child_messages, deadline_sweep, lease
from agents_app.runs.children import ADD_INSTRUCTION as ADD_INSTRUCTION
from agents_app.runs.children import COMMANDS as COMMANDS
from agents_app.runs.children import PAUSE as PAUSE
from agents_app.runs.children import RESUME as RESUME
from agents_app.runs.children import NewChild as NewChild
from agents_app.runs.children import lock_in_tree
from agents_app.runs.children import start_child as start_child
from agents_app.runs.context_usage import ContextUsage as ContextUsage
from agents_app.runs.context_usage import context_usage as context_usage
from agents_app.runs.deadline_sweep import move_times as move_times
from agents_app.runs.emergency_stop import resume_agents as resume_agents
from agents_app.runs.emergency_stop import stop_agents as stop_agents
from agents_app.runs.next_step import CANCELLED, End
from agents_app.runs.person_requests import MESSAGE as MESSAGE
from agents_app.runs.person_requests import PersonRequest as PersonRequest
from agents_app.runs.person_requests import ask_child as ask_child
from agents_app.runs.run_events import event_of
from agents_app.runs.run_policy import policy_of, session_policy_of
from agents_app.runs.transitions import ADVANCE, QUEUE, end, request_cancel
from agents_app.types import RunOptions, RunStatus, WaitingOn
from agents_app.types.child_runs import RunKind
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel import context
from audit_app.kernel.after_commit import after_commit
from audit_app.kernel.errors import Conflict, found
from audit_app.kernel.nudges import nudge
from tools_app import selectors as tools
from tools_app import services as tool_services
from tools_app.policy import emergency_stop
from tools_app.types import ApprovalView

DEFAULT_OPTIONS = RunOptions()


# What a client sends anew with each request of one exchange of tool calls and outputs.
_OPTIONS_OF_REQUESTS = (
    "instructions",
    "output_schema",
    "temperature",
    "max_output_tokens",
    "sampling",
    "client_tools",
    "tool_choice",
)


@dataclass(frozen=True)
class NewRun:
    """A run that is to be started.

    ordinal: place in the conversation's queue.
    user_turn_count: number of user turns it answers.
    spec: ChildSpec fields of a run that no message starts.
    session_policy: restrictions of its session, fixed for this run.
    waits: earlier runs of the conversation are open. The end of the last one nudges a worker for this one.
    """

    conversation_id: UUID
    session_key: str
    ordinal: int
    agent: Agent
    actor: str
    user_turn_count: int = 1
    kind: RunKind = RunKind.MESSAGE
    spec: Mapping[str, Any] | None = None
    session_policy: Mapping[str, Any] = field(default_factory=dict)
    options: RunOptions = DEFAULT_OPTIONS
    waits: bool = False


def start_run(new: NewRun) -> tuple[Run, list[NewEvent]]:
    """Store a queued run in the caller's transaction, which emits the returned events. Nudge a worker after commit,
    unless it waits.

    Raises Stopped if the agent is stopped, IntegrityError if the ordinal is taken.
    """
    emergency_stop.check_running(new.agent.agent_id)
    values = {**vars(new), "kind": new.kind.value, "options": new.options.to_dict()}
    waits = values.pop("waits")
    run = Run(**values, request_id=context.request_id.get(), created_at=timezone.now())
    hot_queries.INSERT_RUN.run([run])
    if not waits:
        nudge(ADVANCE, str(run.id), queue=QUEUE)
    return run, [event_of(run, events.RUN_QUEUED, {"ordinal": run.ordinal, "agent_id": run.agent.agent_id})]


def nudge_run(run_id: UUID) -> None:
    """Nudge a worker after commit."""
    nudge(ADVANCE, str(run_id), queue=QUEUE)


def delay_run(run_id: UUID, seconds: float, *, is_exact: bool = False) -> bool:
    """Start a run that was never claimed after this many seconds, or now, in the caller's transaction.

    Locks the run's row. is_exact: nudge a worker then. Return False if the run was claimed before.
    """
    ready_at = Now() + timedelta(seconds=seconds) if seconds > 0 else Now()
    is_untouched = Q(status=RunStatus.QUEUED.value, owner=None, fence=0)
    if not Run.objects.filter(is_untouched, pk=run_id).update(ready_at=ready_at):
        return False
    if seconds <= 0 or is_exact:
        nudge(ADVANCE, str(run_id), queue=QUEUE, delay_seconds=seconds)
    return True


def lock_unclaimed_run(run_id: UUID) -> bool:
    """Lock a run's row in the caller's transaction. Return whether no process has claimed the run so far."""
    run = _locked_runs().filter(pk=run_id).first()
    return run is not None and run.status == RunStatus.QUEUED.value and run.owner is None and run.fence == 0


def cancel_run(run_id: UUID, *, reason: str = "Stopped.") -> bool:
    """Cancel a run. Idempotent; owns its transaction.

    A run without an owner ends at once, with all below it. The owner of any other ends it within a second and keeps its
    partial text; until then, and if that owner is dead, none of them starts a run.
    Return False if the run had ended. Raises NotFound.
    """
    with transaction.atomic():
        # Locked: an owner that parked it meanwhile would not see the request, and no later claim would.
        run = lock_in_tree(run_id)
        if run.ended_at:
            return False
        request_cancel(run)
        if run.owner is None:
            end(run, replace(CANCELLED, message=reason), held_by=None)
        return True


def cancel_on_their_own(conversation_id: UUID, *, reason: str) -> int:
    """Cancel the child runs of the conversation that are on their own. Return the number of those that were open."""
    rows = Run.objects.filter(IS_OPEN, is_on_its_own=True, conversation_id=conversation_id)
    return sum(cancel_run(pk, reason=reason) for pk in list(rows.order_by("id").values_list("pk", flat=True)))


def take_reports(conversation_id: UUID, actor: str) -> list[Run]:
    """Return the child runs of a person on their own that a run of the session has to be started for; each once.

    In the caller's transaction, which starts it. The oldest comes first; each with the run that launched it.
    """
    rows = hot_queries.reporting().filter(conversation_id=conversation_id, actor=actor)
    locked = rows.select_for_update(of=("self",), no_key=True).select_related("parent__agent", "listener")
    found = list(locked.order_by("id"))
    Run.objects.filter(pk__in=[run.pk for run in found]).update(starts_run=False)
    return found


def count_since_message(child: Run) -> int:
    """Return the number of runs since the last message of a person: of the tree of a child run's last listener, and
    those before it.
    """
    listener = child.listener or child.parent
    if listener is None:
        return 0
    return listener.child_spec.runs_before + 1 + Run.objects.filter(root_id=listener.pk).count()


def end_open_runs(reason: str) -> int:
    """End every open run as failed, whichever process held it, and return their number. Owns its transactions.

    Only while no process runs: one that holds a run would lose it.
    """
    count = 0
    for run in Run.objects.select_related("agent").filter(IS_OPEN).order_by("id"):
        with transaction.atomic():
            count += end(run, End(RunStatus.FAILED, "restored", reason), held_by=run.owner)
    return count


def decide_approval(approval_id: UUID, *, decision: str, actor: str, note: str = "") -> ApprovalView:
    """Store a decision about a tool call that a run waits for. Owns its transaction.

    The caller checks that the actor may decide.
    decision: allow_once | allow_run | allow_always | deny, among the approval's `choices`.
    note: for the model and the audit log.

    Raises NotFound, InvalidInput (unknown_decision, choice_not_offered), AlreadyDecided (with the first decision) or
    ApprovalExpired.
    """
    with transaction.atomic():
        run_id = tools.get_approval(approval_id).run_id
        # Lock order: the run's row before those of its executions.
        run = agent_versions.use_version(_locked_runs().get(pk=run_id))
        decided = tool_services.decide_approval(
            approval_id,
            decision=decision,
            actor=actor,
            note=note,
            policy=tool_services.CurrentPolicy(policy_of(run), session_policy_of(run)),
            requesters=conversation_port.get().requesters(run.conversation_id, run.actor),
        )
        lease.refresh_waiting_on(run_id)
        if run.parent_id:
            after_commit(deadline_sweep.hold, run_id)
        return decided


def answer_input(
    run_id: UUID, text: str, *, actor: str, request_id: UUID | None = None
) -> tuple[Run, tool_services.Answered] | None:
    """Answer the oldest open question of a run, or this one, in the caller's transaction, and resume the run after it.

    The caller stores the turn. Return the root run, its row locked, and the answered question; or None if none is open.
    """
    # Lock order: the root's row before the run's, and that before those of its executions.
    root_id = Run.objects.filter(pk=run_id).values_list("root_id", flat=True).first()
    root = _locked_runs().get(pk=root_id) if root_id else None
    run = _locked_runs().filter(IS_OPEN, pk=run_id).first()
    answered = tool_services.answer_input(run_id, text, actor=actor, request_id=request_id) if run else None
    if answered:
        lease.refresh_waiting_on(run_id)
        if root_id:
            after_commit(deadline_sweep.hold, run_id)
        nudge(ADVANCE, str(run_id), queue=QUEUE)
    return (root or run, answered) if run and answered else None


def answer_client_calls(run_id: UUID, outputs: Mapping[UUID, str], *, options: RunOptions) -> bool:
    """Store the outputs of a client's tools, and let the run continue after the last one. Owns its transaction.

    outputs: texts, by execution. The first output of a call counts.
    options: of the request with the outputs; they replace those of the message: a client sends them with each request.
    Return False, without changes, if no such call is open.
    """
    with transaction.atomic():
        run = _locked_runs().filter(IS_OPEN, pk=run_id).first()  # before the rows of its executions
        if run is None or not tool_services.answer_client_calls(run_id, outputs):
            return False
        kept = RunOptions.from_dict(run.options)
        changed = {name: getattr(options, name) for name in _OPTIONS_OF_REQUESTS}
        Run.objects.filter(pk=run_id).update(options=replace(kept, **changed).to_dict())
        return True


def leave_client_calls(run_id: UUID) -> bool:
    """End a run whose client goes on without sending the outputs of its tools. Return False if none was open.

    Owns its transaction.
    """
    with transaction.atomic():
        run = _locked_runs().filter(IS_OPEN, pk=run_id).first()
        return run is not None and tool_services.expire_client_calls(run_id) > 0


def steer_open_run(conversation_id: UUID, agent: Agent) -> Run | None:
    """Add a user turn to the conversation's last open run, in the caller's transaction, which stores the turn.

    Return the run, with its row locked and `user_turn_count` raised. None if no run is open, or if it is another
    agent's, executes a network or is being cancelled. Raises Stopped if the agent is stopped.
    """
    rows = Run.objects.filter(IS_OPEN, IS_ROOT, conversation_id=conversation_id, cancel_requested_at=None)
    last = rows.order_by("-ordinal").values_list("id", flat=True).first()
    joins = Q(agent=agent, options__network__isnull=True)
    if last is None or not rows.filter(joins, pk=last).update(user_turn_count=F("user_turn_count") + 1):
        return None
    emergency_stop.check_running(agent.agent_id)
    run = Run.objects.select_related("agent").get(pk=last)
    if run.waiting_on == WaitingOn.CHILDREN.value:
        child_messages.resume_waiting(last)
    return run


def interrupt(conversation_id: UUID) -> None:
    """Request the cancellation of the open root runs of a conversation, in the caller's transaction.

    The caller stores a message that interrupts them, and cancels them after its commit: until then, one that waits for
    its child runs would leave them for the message. It locks the conversation after this.
    """
    rows = Run.objects.filter(IS_OPEN, IS_ROOT, conversation_id=conversation_id)
    rows.filter(cancel_requested_at=None).update(cancel_requested_at=Now())


def cancel_earlier_runs(conversation_id: UUID, ordinal: int, *, reason: str) -> int:
    """Cancel the open runs of the conversation before this ordinal. Return their number."""
    rows = Run.objects.filter(IS_OPEN, IS_ROOT, conversation_id=conversation_id, ordinal__lt=ordinal)
    # The last one first: cancelling the first would start the second.
    return sum(cancel_run(pk, reason=reason) for pk in list(rows.order_by("-ordinal").values_list("id", flat=True)))


def retry_run(run_id: UUID, *, actor: str) -> UUID:
    """Retry the message of an ended run with a new run, the last of its conversation. Owns its transaction.

    While that run is open, a repeated call returns the same id. Raises NotFound, or Conflict (not_retryable) if the run
    is open or completed.
    """
    with transaction.atomic():
        run = found(_locked_runs().filter(pk=run_id).first(), "There is no such run.")
        same = Run.objects.filter(IS_OPEN, conversation_id=run.conversation_id, options__retry_of=str(run_id))
        if open_retry := same.values_list("pk", flat=True).first():
            return open_retry
        if run.parent_id:
            raise Conflict("Only the agent that launched a workstream can launch it again.", code="not_retryable")
        if run.status not in (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED):
            raise Conflict("Only a run that failed or was stopped can be tried again.", code="not_retryable")
        new = NewRun(
            conversation_id=run.conversation_id,
            session_key=run.session_key,
            agent=run.agent,
            actor=actor,
            ordinal=conversation_port.get().take_ordinal(run.conversation_id),
            user_turn_count=0,
            session_policy=run.session_policy,
            options=replace(RunOptions.from_dict(run.options), retry_of=str(run_id)),
        )
        retry, new_events = start_run(new)
        audit.emit(new_events)
        return retry.id


def _locked_runs() -> QuerySet[Run]:
    return Run.objects.select_for_update(of=("self",), no_key=True).select_related("agent")
