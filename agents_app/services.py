"""What other apps may ask of runs (start, cancel, retry) and of agents (create, update, retire, restore)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import conversation_port, events, skills
from agents_app.models import IS_OPEN, OPEN, Agent, ModelProvider, Run
from agents_app.runs.emergency_stop import resume_agents as resume_agents
from agents_app.runs.emergency_stop import stop_agents as stop_agents
from agents_app.runs.next_step import CANCELLED
from agents_app.runs.run_policy import policy_of, session_policy_of
from agents_app.runs.transitions import ADVANCE, QUEUE, end, event_of, refresh_waiting_on
from agents_app.types import RunOptions, RunStatus
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel import context
from audit_app.kernel.compiled_queries import CompiledInsert
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.kernel.nudges import nudge
from tools_app import selectors as tools
from tools_app import services as tool_services
from tools_app.policy import emergency_stop
from tools_app.types import ApprovalView

DEFAULT_OPTIONS = RunOptions()


def start_run(
    *,
    conversation_id: UUID,
    session_key: str,
    ordinal: int,
    agent: Agent,
    actor: str,
    user_turn_count: int = 1,
    session_policy: Mapping[str, Any] | None = None,
    options: RunOptions = DEFAULT_OPTIONS,
) -> tuple[Run, list[NewEvent]]:
    """Store a queued run and ring for it after commit. In the caller's transaction, which emits the returned facts.

    user_turn_count: user turns it answers; session_policy: what its session forbids, from now on for this run. Raises
    Stopped
    while the agent may not act, IntegrityError when the ordinal is taken.
    """
    emergency_stop.check_running(agent.agent_id)
    run = Run(
        conversation_id=conversation_id,
        session_key=session_key,
        ordinal=ordinal,
        agent=agent,
        actor=actor,
        request_id=context.request_id.get(),
        user_turn_count=user_turn_count,
        session_policy=dict(session_policy or {}),
        options=options.to_dict(),
        created_at=timezone.now(),
    )
    _NEW_RUN.run([run])
    nudge(ADVANCE, str(run.id), queue=QUEUE)
    return run, [event_of(run, events.RUN_QUEUED, {"ordinal": ordinal, "agent_id": agent.agent_id})]


_NEW_RUN = CompiledInsert(Run, ready_at=Now())  # by the database's clock, as whoever claims it sees it


def delay_run(run_id: UUID, seconds: float) -> bool:
    """Let a run that nobody has begun start in that many seconds, or now. In the caller's transaction, which holds the
    run's row then. False when it has begun already."""
    ready_at = Now() + timedelta(seconds=seconds) if seconds > 0 else Now()
    is_untouched = Q(status=RunStatus.QUEUED.value, owner=None, fence=0)
    if not Run.objects.filter(is_untouched, pk=run_id).update(ready_at=ready_at):
        return False
    if seconds <= 0:
        nudge(ADVANCE, str(run_id), queue=QUEUE)
    return True


def cancel_run(run_id: UUID, *, reason: str = "Stopped.") -> bool:
    """Ask a run to end. One that nobody holds ends at once; the holder of another sees it within a second and keeps
    its partial text. Asking twice changes nothing. False when the run was over already; raises NotFound."""
    with transaction.atomic():
        # Locked: a holder that lets it go meanwhile would leave it parked, with nobody to see that it was asked to end.
        run = Run.objects.select_for_update(of=("self",)).select_related("agent").filter(pk=run_id).first()
        if run is None:
            raise NotFound("There is no such run.")
        asked = Run.objects.filter(pk=run_id, status__in=OPEN).update(cancel_requested_at=Now())
        if not asked:
            return False
        if run.owner is None:
            end(run, replace(CANCELLED, message=reason), held_by=None)
        return True


def decide_approval(approval_id: UUID, *, decision: str, actor: str, note: str = "") -> ApprovalView:
    """A person's decision about a call that a run waits for: the door for every surface.

    decision: allow_once | allow_run | allow_always | deny, among the approval's `choices`; note: for the model and the
    record. Raises NotFound, InvalidInput (unknown_decision, choice_not_offered), AlreadyDecided (with the first
    decision), ApprovalExpired; whether the person may decide is the caller's to know.
    """
    with transaction.atomic():
        run_id = tools.get_approval(approval_id).run_id
        # The run's row first, as everywhere: what ends a run takes its executions' rows after it.
        run = Run.objects.select_for_update(of=("self",)).select_related("agent").get(pk=run_id)
        decided = tool_services.decide_approval(
            approval_id,
            decision=decision,
            actor=actor,
            note=note,
            policy=policy_of(run),
            session_policy=session_policy_of(run),
        )
        refresh_waiting_on(run_id)
        return decided


def answer_input(run_id: UUID, text: str, *, actor: str) -> tuple[Run, tool_services.Answered] | None:
    """Answer what a run asks the person, in the caller's transaction, which stores their words as a turn of the run and
    emits the facts. The run goes on after commit.

    None, and nothing done, when it asks nothing any more. Returns the run, its row locked, and what was answered.
    """
    # The run's row first, as everywhere: what ends a run takes its executions' rows after it.
    run = Run.objects.select_for_update(of=("self",)).select_related("agent").filter(IS_OPEN, pk=run_id).first()
    answered = tool_services.answer_input(run_id, text, actor=actor) if run else None
    if run is None or answered is None:
        return None
    refresh_waiting_on(run_id)
    nudge(ADVANCE, str(run_id), queue=QUEUE)
    return run, answered


def steer_open_run(conversation_id: UUID) -> Run | None:
    """Give the conversation's last open run one more user turn, in the caller's transaction, which stores the turn.

    Returns the run, its row locked and `user_turn_count` counted up; None when no run is open or it is being stopped.
    """
    rows = Run.objects.filter(IS_OPEN, conversation_id=conversation_id, cancel_requested_at=None)
    last = rows.order_by("-ordinal").values_list("id", flat=True).first()
    if last is None or not rows.filter(pk=last).update(user_turn_count=F("user_turn_count") + 1):
        return None
    run = Run.objects.select_related("agent").get(pk=last)
    emergency_stop.check_running(run.agent.agent_id)
    return run


def cancel_earlier_runs(conversation_id: UUID, ordinal: int, *, reason: str) -> int:
    """Stop every open run of the conversation that stands before this place. The count that was asked to stop."""
    rows = Run.objects.filter(IS_OPEN, conversation_id=conversation_id, ordinal__lt=ordinal)
    # From the last to the first: stopping the first would only start the second.
    earlier = list(rows.order_by("-ordinal").values_list("id", flat=True))
    return sum(cancel_run(run_id, reason=reason) for run_id in earlier)


def retry_run(run_id: UUID, *, actor: str) -> UUID:
    """Try an ended run's message again as a new run, last in its conversation; as long as that is open, asking again
    gives the same. Raises NotFound, or Conflict when it has not ended or has ended well."""
    with transaction.atomic():
        run = Run.objects.select_for_update(of=("self",)).select_related("agent").filter(pk=run_id).first()
        if run is None:
            raise NotFound("There is no such run.")
        same = Run.objects.filter(IS_OPEN, conversation_id=run.conversation_id, options__retry_of=str(run_id))
        if under_way := same.values_list("pk", flat=True).first():
            return under_way
        if run.status not in (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED):
            raise Conflict("Only a run that failed or was stopped can be tried again.", code="not_retryable")
        again, facts = start_run(
            conversation_id=run.conversation_id,
            session_key=run.session_key,
            agent=run.agent,
            actor=actor,
            ordinal=conversation_port.get().take_ordinal(run.conversation_id),
            user_turn_count=0,
            session_policy=run.session_policy,
            options=replace(RunOptions.from_dict(run.options), retry_of=str(run_id)),
        )
        audit.emit(facts)
        return again.id


DEFAULT_AGENT = "default"


def create_agent(*, agent_id: str, name: str, provider: str = "", owner_id: int | None = None, **fields: Any) -> Agent:
    """A new agent. provider: its public name (empty: that of the default agent); fields: columns of Agent, among them
    the skills it is to have, which use the owner's credentials.

    Raises InvalidInput (unknown_provider, unknown_skill), Conflict (agent_exists; a retired agent keeps its id).
    """
    wanted = fields.pop("enabled_skill_ids", [])
    source = _provider(provider) if provider else ModelProvider.objects.get(agents__agent_id=DEFAULT_AGENT)
    agent = Agent(agent_id=agent_id, name=name, provider=source, owner_id=owner_id, **fields)
    try:
        with transaction.atomic():
            agent.save(force_insert=True)
            audit.record("AgentCreated", agent_id=agent_id, details={"name": name, "provider": source.name})
            skills.set_skills(agent, wanted, owner_id=owner_id)
    except IntegrityError:
        raise Conflict(f"There is an agent {agent_id!r} already.", code="agent_exists") from None
    return agent


def update_agent(agent: Agent, *, provider: str = "", skills_of: int | None = None, **fields: Any) -> Agent:
    """Change some of an agent's columns; runs under way see it at their next claim. Raises InvalidInput.

    skills_of: the user whose credentials the skills use that it is given, None for the installation's.
    """
    wanted = fields.pop("enabled_skill_ids", None)
    if provider:
        fields["provider"] = _provider(provider)
    for name, value in fields.items():
        setattr(agent, name, value)
    with transaction.atomic():
        agent.save(update_fields=[*fields, "updated_at"])
        audit.record("AgentUpdated", agent_id=agent.agent_id, details={"fields": sorted(fields)})
        if wanted is not None:
            skills.set_skills(agent, wanted, owner_id=skills_of)
    return agent


def retire_agent(agent: Agent) -> None:
    """Take an agent out of use; its runs and sessions stay readable. The default agent cannot go (Conflict)."""
    if agent.agent_id == DEFAULT_AGENT:
        raise Conflict("The default agent answers every new session; it cannot be deleted.", code="default_agent")
    with transaction.atomic():
        Agent.objects.filter(pk=agent.pk, retired_at=None).update(retired_at=Now())
        audit.record("AgentRetired", agent_id=agent.agent_id)


def restore_agent(agent: Agent) -> bool:
    """Take a retired agent back into use. False when it was not retired."""
    with transaction.atomic():
        if not Agent.objects.filter(pk=agent.pk, retired_at__isnull=False).update(retired_at=None):
            return False
        audit.record("AgentRestored", agent_id=agent.agent_id)
        return True


def _provider(name: str) -> ModelProvider:
    provider = ModelProvider.objects.filter(name=name, is_enabled=True).first()
    if provider is None:
        known = ", ".join(ModelProvider.objects.filter(is_enabled=True).values_list("name", flat=True))
        raise InvalidInput(f"There is no model provider {name!r}. Known: {known}.", code="unknown_provider")
    return provider
