"""Who executes a run: claiming, releasing and taking over. The fence rises with every claim and voids older ones."""

from dataclasses import dataclass
from uuid import UUID, uuid4

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from agents_app import conversation_port, events, selectors
from agents_app.models import IS_OPEN, ModelProvider, Run
from agents_app.runs import cost_budget, transitions
from agents_app.runs.next_step import defect
from agents_app.runs.run_policy import limits_of, policy_of, session_policy_of
from agents_app.runs.transitions import ADVANCE, QUEUE, end, event_of, move
from agents_app.types import Limits, Message, RunStatus, Snapshot, WaitingOn
from audit_app import services as audit
from audit_app.kernel.compiled_queries import CompiledObjects, CompiledQuery
from audit_app.kernel.database import is_away
from audit_app.kernel.nudges import nudge
from tools_app import selectors as tools
from tools_app import services as tool_services
from tools_app.policy import emergency_stop
from tools_app.types import ToolSpec

# How often a claim looks again when another worker took what it saw; the next second's sweep does the rest.
_LOOKS = 5


@dataclass(frozen=True)
class Claim:
    """One process's hold on one run, with everything it needs to go on.

    run: the row as claimed (its `fence` is this claim's number); history: the conversation before this run's own
    steps; tools: what its model is offered; resumes: an older claim may have begun a step that it did not record.
    """

    run: Run
    owner: UUID
    snapshot: Snapshot
    history: tuple[Message, ...]
    provider: ModelProvider
    tools: tuple[ToolSpec, ...]
    resumes: bool

    @property
    def fence(self) -> int:
        return self.run.fence


@dataclass(frozen=True)
class Held:
    """What a holder has to know of its run while it works. is_stopped: by the emergency stop."""

    run: Run
    is_stopped: bool


def claimable() -> QuerySet[Run]:
    """Runs that nobody holds and that can go on now: due, first in their conversation, no tool of theirs open, not
    stopped by an operator."""
    due = Q(ready_at__lte=Now())
    on_tools = Q(waiting_on=WaitingOn.TOOLS.value) | Q(waiting_on=WaitingOn.APPROVAL.value)
    on_tools |= Q(waiting_on=WaitingOn.INPUT.value)  # what a person approves or answers is a call, too
    tools_done = on_tools & ~Exists(tools.open_executions().filter(run_id=OuterRef("pk")))
    earlier = Run.objects.filter(IS_OPEN, conversation_id=OuterRef("conversation_id"), ordinal__lt=OuterRef("ordinal"))
    stopped = emergency_stop.stops_of(OuterRef("agent__agent_id"))
    return Run.objects.filter(IS_OPEN, due | tools_done, ~Exists(earlier), ~Exists(stopped), owner=None)


_THIS_CLAIMABLE = CompiledQuery(lambda run_id: claimable().filter(pk=run_id).values_list("pk"), uuid4())
_WITH_AGENT = CompiledObjects(lambda run_id: Run.objects.select_related("agent__provider").filter(pk=run_id), uuid4())
# What has begun goes first. Not by the order: null stands first in SQLite and last in PostgreSQL.
_BEGUN_CLAIMABLE = CompiledQuery(lambda: claimable().filter(ready_at=None).order_by().values_list("pk")[:1])
_OLDEST_CLAIMABLE = CompiledQuery(lambda: claimable().order_by("ready_at").values_list("pk")[:1])


def claim(owner: UUID, run_id: UUID | None = None) -> Claim | None:
    """Take the given run, or the oldest claimable one, and load it. None when there is nothing to take.

    Synchronous; one short transaction and a few reads. A run that cannot be loaded, for a reason that no waiting
    mends, ends: it would be claimed and given back for ever.
    """
    taken = _take(owner, run_id)
    if taken is None:
        return None
    run, resumes = taken
    try:
        return _load(run, owner, resumes=resumes)
    except Exception as error:
        if is_away(error):
            raise
        failure = defect()
        with transaction.atomic():
            end(run, RunStatus.FAILED, held_by=owner, code=failure.code, message=failure.message)
        raise


def _load(run: Run, owner: UUID, *, resumes: bool) -> Claim:
    history = tuple(conversation_port.get().history(selectors.run_view(run)))
    offered = tool_services.specs_for(policy_of(run), session_policy_of(run))
    return Claim(run, owner, load_snapshot(run), history, run.agent.provider, offered, resumes)


def _take(owner: UUID, run_id: UUID | None) -> tuple[Run, bool] | None:
    for _ in range(_LOOKS):
        found = _THIS_CLAIMABLE.rows(run_id) if run_id else _BEGUN_CLAIMABLE.rows() or _OLDEST_CLAIMABLE.rows()
        if not found:
            return None
        run = _WITH_AGENT.fetch(found[0][0])[0]
        resumes = run.status == RunStatus.RUNNING.value or run.waiting_on == WaitingOn.RETRY.value
        if _hold(run, owner):
            return run, resumes
    return None


def _hold(run: Run, owner: UUID) -> bool:
    """Make the run, as it was read, this owner's. False: someone was faster. The read needs no lock and stays out of
    the transaction, which on SQLite everyone else waits for."""
    try:
        with transaction.atomic():
            if not transitions.claim(run, owner):
                return False
            run.fence += 1
            if run.started_at is None:
                audit.emit([event_of(run, events.RUN_STARTED, {"fence": run.fence, "agent_id": run.agent.agent_id})])
            return True
    except IntegrityError:
        # Another run of the conversation became active between our look and our update: it comes first.
        return False


def load_snapshot(run: Run) -> Snapshot:
    """What `next_step` decides on, read from the recorded rows."""
    is_new = run.fence == 1  # nobody can have recorded anything yet
    return Snapshot(
        user_turns=tuple(conversation_port.get().user_turns(run.id)),
        steps=() if is_new else selectors.list_steps(run.id),
        executions=() if is_new else tools.list_executions(run.id),
        limits=limits_of(run),
        active_seconds=run.active_seconds,
        cancel_requested=run.cancel_requested_at is not None,
        budget_refusal=cost_budget.budget_refusal(run.agent),
    )


def list_held(owner: UUID) -> dict[UUID, Held]:
    """The runs that a process holds, by id: one plain read, no lock."""
    held = Run.objects.filter(owner=owner).only("fence", "owner", "cancel_requested_at")
    rows = held.annotate(stopped=Exists(emergency_stop.stops_of(OuterRef("agent__agent_id"))))
    return {run.id: Held(run, run.stopped) for run in rows}


def release(run: Run, owner: UUID, *, active_seconds: float) -> bool:
    """Give a run back unfinished without blame (a drain): whoever claims next thinks the open step again."""
    with transaction.atomic():
        given = move(
            run.id,
            RunStatus.RUNNING,
            expect=[RunStatus.RUNNING.value],
            at_fence=run.fence,
            held_by=owner,
            owner=None,
            ready_at=Now(),
            active_seconds=F("active_seconds") + active_seconds,
        )
        if given:
            nudge(ADVANCE, str(run.id), queue=QUEUE)
        return given


def recover_crashed(run: Run) -> bool:
    """The holder died: free its run for the next claim and count the crash; at the limit the run fails.

    run: as read, with its dead owner and its fence. False when someone was faster.
    """
    with transaction.atomic():
        if run.crashes + 1 < Limits.crashes:
            freed = move(
                run.id,
                RunStatus.RUNNING,
                expect=[RunStatus.RUNNING.value],
                at_fence=run.fence,
                held_by=run.owner,
                owner=None,
                ready_at=Now(),
                crashes=F("crashes") + 1,
            )
            if freed:
                nudge(ADVANCE, str(run.id), queue=QUEUE)
            return freed
        return end(
            run,
            RunStatus.FAILED,
            held_by=run.owner,
            code="crashed",
            crashes=F("crashes") + 1,
            message=f"The worker died {Limits.crashes} times over this message. An operator should look at the run.",
        )
