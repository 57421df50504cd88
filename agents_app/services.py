"""Writes of runs (start, cancel, retry) and agents (create, update, retire, restore) for other apps."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import agent_access, agent_versions, conversation_port, events, hot_queries, prompt_templates, skills
from agents_app.fallbacks import check_fallbacks
from agents_app.models import IS_OPEN, IS_ROOT, OPEN, Agent, AgentVersion, ModelProvider, Run
from agents_app.runs import tree
from agents_app.runs.children import NewChild as NewChild
from agents_app.runs.children import start_child as start_child
from agents_app.runs.context_usage import ContextUsage as ContextUsage
from agents_app.runs.context_usage import context_usage as context_usage
from agents_app.runs.emergency_stop import resume_agents as resume_agents
from agents_app.runs.emergency_stop import stop_agents as stop_agents
from agents_app.runs.next_step import CANCELLED, End
from agents_app.runs.run_policy import policy_of, session_policy_of
from agents_app.runs.transitions import ADVANCE, QUEUE, end, event_of, refresh_waiting_on
from agents_app.types import RunOptions, RunStatus, WaitingOn
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel import context
from audit_app.kernel.errors import Conflict, InvalidInput, found
from audit_app.kernel.nudges import nudge
from tools_app import selectors as tools
from tools_app import services as tool_services
from tools_app.policy import emergency_stop
from tools_app.types import ApprovalView

DEFAULT_OPTIONS = RunOptions()


@dataclass(frozen=True)
class NewRun:
    """A run that is to be started.

    ordinal: place in the conversation's queue.
    user_turn_count: number of user turns it answers.
    session_policy: restrictions of its session, fixed for this run.
    """

    conversation_id: UUID
    session_key: str
    ordinal: int
    agent: Agent
    actor: str
    user_turn_count: int = 1
    session_policy: Mapping[str, Any] = field(default_factory=dict)
    options: RunOptions = DEFAULT_OPTIONS


def start_run(new: NewRun) -> tuple[Run, list[NewEvent]]:
    """Store a queued run and nudge a worker after commit, in the caller's transaction, which emits the returned events.

    Raises Stopped if the agent is stopped, IntegrityError if the ordinal is taken.
    """
    emergency_stop.check_running(new.agent.agent_id)
    values = {**vars(new), "options": new.options.to_dict()}
    run = Run(**values, request_id=context.request_id.get(), created_at=timezone.now())
    hot_queries.INSERT_RUN.run([run])
    nudge(ADVANCE, str(run.id), queue=QUEUE)
    return run, [event_of(run, events.RUN_QUEUED, {"ordinal": run.ordinal, "agent_id": run.agent.agent_id})]


def delay_run(run_id: UUID, seconds: float, *, is_exact: bool = False) -> bool:
    """Start a run that was never claimed after this many seconds, or now, in the caller's transaction.

    Locks the run's row. is_exact: nudge a worker then. Return False if the run was claimed before.
    """
    ready_at = Now() + timedelta(seconds=seconds) if seconds > 0 else Now()
    is_untouched = Q(status=RunStatus.QUEUED.value, owner=None, fence=0)
    if not Run.objects.filter(is_untouched, pk=run_id).update(ready_at=ready_at):
        return False
    if seconds <= 0 or is_exact:
        nudge(ADVANCE, str(run_id), queue=QUEUE, countdown=max(seconds, 0))
    return True


def lock_unclaimed_run(run_id: UUID) -> bool:
    """Lock a run's row in the caller's transaction. Return whether no process has claimed the run so far."""
    run = _locked_runs().filter(pk=run_id).first()
    return run is not None and run.status == RunStatus.QUEUED.value and run.owner is None and run.fence == 0


def cancel_run(run_id: UUID, *, reason: str = "Stopped.") -> bool:
    """Cancel a run. Idempotent; owns its transaction.

    A run without an owner ends at once. The owner of any other ends it within a second and keeps its partial text.
    Return False if the run had ended. Raises NotFound.
    """
    with transaction.atomic():
        # Locked: an owner that parked it meanwhile would not see the request, and no later claim would.
        run = found(_locked_runs().filter(pk=run_id).first(), "There is no such run.")
        if not Run.objects.filter(pk=run_id, status__in=OPEN).update(cancel_requested_at=Now()):
            return False
        if run.owner is None:
            end(run, replace(CANCELLED, message=reason), held_by=None)
        return True


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
        refresh_waiting_on(run_id)
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
        refresh_waiting_on(run_id)
        nudge(ADVANCE, str(run_id), queue=QUEUE)
    return (root or run, answered) if run and answered else None


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
        tree.resume_waiting(last)
    return run


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
            raise Conflict("A workstream is launched again by its agent.", code="not_retryable")
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


DEFAULT_AGENT = "default"


def create_agent(*, agent_id: str, name: str, provider: str = "", owner_id: int | None = None, **fields: Any) -> Agent:
    """Create an agent. Owns its transaction.

    provider: public name of the provider; empty for the default agent's.
    fields: columns of Agent, and `sharing`. The skills in `enabled_skill_ids` use the owner's credentials.

    Raises InvalidInput (unknown_provider, repeated_model, unknown_template, invalid_template, unknown_skill,
    unknown_user, unknown_group, reserved_id), Conflict (agent_exists; a retired agent keeps its id).
    """
    agent_access.check_new_id(agent_id)
    wanted, shared = fields.pop("enabled_skill_ids", []), fields.pop("sharing", None)
    source = _provider(provider) if provider else ModelProvider.objects.get(agents__agent_id=DEFAULT_AGENT)
    agent = Agent(agent_id=agent_id, name=name, provider=source, owner_id=owner_id, **fields)
    check_fallbacks(agent)
    prompt_templates.check_agent(agent)
    try:
        with transaction.atomic():
            agent.save(force_insert=True)
            audit.record("AgentCreated", agent_id=agent_id, details={"name": name, "provider": source.name})
            skills.set_skills(agent, wanted, owner_id=owner_id)
            if shared is not None:
                agent_access.share_agent(agent, shared)
            agent_versions.record_version(agent)
    except IntegrityError:
        raise Conflict(f"There is an agent {agent_id!r} already.", code="agent_exists") from None
    return agent


def update_agent(
    agent: Agent, *, provider: str = "", skills_of: int | None = None, note: str = "", **fields: Any
) -> Agent:
    """Change columns and `sharing` of an agent, and store its new version. Open runs use them from their next claim.

    skills_of: the user whose credentials newly installed skills use; None for the installation's.
    note: of the version. Owns its transaction.

    Raises InvalidInput (unknown_provider, repeated_model, unknown_template, invalid_template, unknown_skill,
    unknown_user, unknown_group).
    """
    wanted, shared = fields.pop("enabled_skill_ids", None), fields.pop("sharing", None)
    if provider:
        fields["provider"] = _provider(provider)
    with transaction.atomic():
        if not agent.version:
            agent_versions.record_version(agent, agent_versions.BASELINE)
        for name, value in fields.items():
            setattr(agent, name, value)
        if fields.keys() & {"provider", "model_id", "fallbacks"}:
            check_fallbacks(agent)
        if fields.keys() & {"template", "template_parameters"}:
            prompt_templates.check_agent(agent)
        agent.save(update_fields=[*fields, "updated_at"])
        audit.record("AgentUpdated", agent_id=agent.agent_id, details={"fields": sorted(fields)})
        if wanted is not None:
            skills.set_skills(agent, wanted, owner_id=skills_of)
        if shared is not None:
            agent_access.share_agent(agent, shared)
        agent_versions.record_version(agent, note)
    return agent


def apply_configuration(
    agent: Agent, configuration: Mapping[str, Any], *, skills_of: int | None = None, note: str = ""
) -> Agent:
    """Give an agent a whole stored configuration, as a new version. Owns its transaction.

    Raises what `update_agent` raises, and InvalidInput (unknown_name) for an object that no longer exists.
    """
    single, many = agent_versions.resolve(configuration)
    with transaction.atomic():
        for name, related in many.items():
            getattr(agent, name).set(related)
        return update_agent(agent, skills_of=skills_of, note=note, **single)


def save_draft(agent: Agent, changes: Mapping[str, Any]) -> AgentVersion:
    """Change fields of the draft with `agent_versions.save_draft`. Raises InvalidInput, also for an unknown provider.

    changes: as for `update_agent`.
    """
    if provider := changes.get("provider"):
        _provider(provider)
    return agent_versions.save_draft(agent, changes)


def publish_draft(agent: Agent, draft: AgentVersion, *, skills_of: int | None = None) -> Agent:
    """Make a draft, as its caller has checked it, the agent's configuration. One that was saved meanwhile stays."""
    with transaction.atomic():
        apply_configuration(agent, draft.configuration, skills_of=skills_of, note=draft.note or "Published the draft.")
        draft.delete()
    return agent


def roll_back(agent: Agent, version: AgentVersion, *, skills_of: int | None = None) -> Agent:
    """Make an earlier version the agent's configuration again, as a new version."""
    note = f"Rolled back to version {version.number}."
    return apply_configuration(agent, version.configuration, skills_of=skills_of, note=note)


def retire_agent(agent: Agent) -> None:
    """Retire an agent; its runs and sessions stay readable. Raises Conflict for the default agent."""
    if agent.agent_id == DEFAULT_AGENT:
        raise Conflict("The default agent answers every new session; it cannot be deleted.", code="default_agent")
    with transaction.atomic():
        Agent.objects.filter(pk=agent.pk, retired_at=None).update(retired_at=Now())
        audit.record("AgentRetired", agent_id=agent.agent_id)


def restore_agent(agent: Agent) -> bool:
    """Restore a retired agent. Return False if it was not retired."""
    with transaction.atomic():
        if not Agent.objects.filter(pk=agent.pk, retired_at__isnull=False).update(retired_at=None):
            return False
        audit.record("AgentRestored", agent_id=agent.agent_id)
        return True


def _locked_runs() -> QuerySet[Run]:
    return Run.objects.select_for_update(of=("self",), no_key=True).select_related("agent")


def _provider(name: str) -> ModelProvider:
    provider = ModelProvider.objects.filter(name=name, is_enabled=True).first()
    if provider is None:
        known = ", ".join(ModelProvider.objects.filter(is_enabled=True).values_list("name", flat=True))
        raise InvalidInput(f"There is no model provider {name!r}. Known: {known}.", code="unknown_provider")
    return provider
