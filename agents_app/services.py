"""What other apps may ask of runs (start, cancel, retry) and of agents (create, update, retire, restore)."""

from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from agents_app import conversations, events
from agents_app.models import IS_OPEN, OPEN, Agent, ModelProvider, Run
from agents_app.runs.transitions import ADVANCE, QUEUE, approvals_settled, end, fact_of
from agents_app.types import RunStatus
from audit_app import services as audit
from audit_app.kernel import context
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.kernel.nudge import nudge
from audit_app.vocabulary import Fact
from tools_app import selectors as tools
from tools_app import services as tool_services
from tools_app.types import ApprovalView


def start_run(
    *,
    conversation_id: UUID,
    session_key: str,
    ordinal: int,
    agent: Agent,
    actor: str,
    words: int = 1,
) -> tuple[Run, list[Fact]]:
    """Store a queued run and ring for it after commit. In the caller's transaction, which emits the returned facts.

    words: user turns it answers. Raises IntegrityError when the ordinal is taken.
    """
    run = Run(
        conversation_id=conversation_id, session_key=session_key, ordinal=ordinal, agent=agent, actor=actor,
        request_id=context.request_id.get(), words=words, created_at=timezone.now(),
        ready_at=Now(),  # by the database's clock, as whoever claims it sees it
    )  # fmt: skip
    run.save(force_insert=True)
    nudge(ADVANCE, str(run.id), queue=QUEUE)
    queued = {"ordinal": ordinal, "agent_id": agent.agent_id}
    return run, [fact_of(run, events.RUN_QUEUED, queued)]


def cancel_run(run_id: UUID, *, reason: str = "Stopped.") -> bool:
    """Ask a run to end. One that nobody holds ends at once; the holder of another sees it within a second and keeps
    its partial text. Asking twice changes nothing. False when the run was over already; raises NotFound."""
    with transaction.atomic():
        run = Run.objects.select_related("agent").filter(pk=run_id).first()
        if run is None:
            raise NotFound("There is no such run.")
        asked = Run.objects.filter(pk=run_id, status__in=OPEN).update(cancel_requested_at=Now())
        if not asked:
            return False
        if run.owner is None:
            end(run, RunStatus.CANCELLED, held_by=None, code="cancelled", message=reason)
        return True


def decide_approval(approval_id: UUID, *, approve: bool, actor: str, note: str = "") -> ApprovalView:
    """A person's decision about a call that a run waits for: the door for every surface. Raises NotFound,
    AlreadyDecided, ApprovalExpired; whether the person may decide is the caller's to know."""
    with transaction.atomic():
        run_id = tools.get_approval(approval_id).run_id
        # The run's row first, as everywhere: what ends a run takes its executions' rows after it.
        Run.objects.select_for_update().filter(pk=run_id).first()
        decided = tool_services.decide_approval(approval_id, approve=approve, actor=actor, note=note)
        if not tools.has_pending_approval(run_id):
            approvals_settled(run_id)
        return decided


def steer_open_run(conversation_id: UUID) -> Run | None:
    """Give the conversation's last open run one more user turn, in the caller's transaction, which stores the turn.

    Returns the run, its row locked and `words` counted up; None when no run is open (any more) or it is being stopped.
    """
    rows = Run.objects.filter(IS_OPEN, conversation_id=conversation_id, cancel_requested_at=None)
    last = rows.order_by("-ordinal").values_list("id", flat=True).first()
    if last is None or not rows.filter(pk=last).update(words=F("words") + 1):
        return None
    return Run.objects.select_related("agent").get(pk=last)


def cancel_earlier_runs(conversation_id: UUID, ordinal: int, *, reason: str) -> int:
    """Stop every open run of the conversation that stands before this place. The count that was asked to stop."""
    rows = Run.objects.filter(IS_OPEN, conversation_id=conversation_id, ordinal__lt=ordinal)
    # From the last to the first: stopping the first would only start the second.
    earlier = list(rows.order_by("-ordinal").values_list("id", flat=True))
    return sum(cancel_run(run_id, reason=reason) for run_id in earlier)


def retry_run(run_id: UUID, *, actor: str) -> UUID:
    """Try an ended run's message again as a new run, last in its conversation. Raises NotFound, or Conflict when it
    has not ended or has ended well."""
    with transaction.atomic():
        run = Run.objects.select_related("agent").filter(pk=run_id).first()
        if run is None:
            raise NotFound("There is no such run.")
        if run.status not in (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED):
            raise Conflict("Only a run that failed or was stopped can be tried again.", code="not_retryable")
        again, facts = start_run(
            conversation_id=run.conversation_id, session_key=run.session_key, agent=run.agent, actor=actor,
            ordinal=conversations.get().take_ordinal(run.conversation_id), words=0,
        )  # fmt: skip
        audit.emit(facts)
        return again.id


DEFAULT_AGENT = "default"


def create_agent(*, agent_id: str, name: str, provider: str = "", owner_id: int | None = None, **fields: Any) -> Agent:
    """A new agent. provider: its public name (empty: that of the default agent); fields: columns of Agent.

    Raises InvalidInput (unknown_provider), Conflict (agent_exists; a retired agent keeps its id).
    """
    source = _provider(provider) if provider else ModelProvider.objects.get(agents__agent_id=DEFAULT_AGENT)
    agent = Agent(agent_id=agent_id, name=name, provider=source, owner_id=owner_id, **fields)
    try:
        with transaction.atomic():
            agent.save(force_insert=True)
            audit.record("AgentCreated", agent_id=agent_id, details={"name": name, "provider": source.name})
    except IntegrityError:
        raise Conflict(f"There is an agent {agent_id!r} already.", code="agent_exists") from None
    return agent


def update_agent(agent: Agent, *, provider: str = "", **fields: Any) -> Agent:
    """Change some of an agent's columns; runs under way see it at their next claim. Raises InvalidInput."""
    if provider:
        fields["provider"] = _provider(provider)
    for name, value in fields.items():
        setattr(agent, name, value)
    with transaction.atomic():
        agent.save(update_fields=[*fields, "updated_at"])
        audit.record("AgentUpdated", agent_id=agent.agent_id, details={"fields": sorted(fields)})
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
