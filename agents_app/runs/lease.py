"""The lease on a run: claim, release, recover. Each claim raises the fence, which voids the writes of older claims."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef
from django.db.models.functions import Now

from agents_app import conversation_port, events, hot_queries, selectors
from agents_app.configuration.agent_versions import use_version
from agents_app.configuration.prompt_templates import use_template
from agents_app.costs import cost_budget
from agents_app.models import ModelProvider, Run
from agents_app.prompt import context_size, offered_tools, tokens
from agents_app.prompt.offered_tools import OfferedTools
from agents_app.prompt.recalled_memories import RecalledMemory
from agents_app.prompt.system_prompt import system_message
from agents_app.runs import recall, transitions, tree, voice_notes
from agents_app.runs.next_step import DEFECT, End
from agents_app.runs.run_policy import limits_of, model_of, provider_of
from agents_app.runs.system_message import system_parts_of
from agents_app.runs.tools_of_run import tools_of_run
from agents_app.runs.transitions import ADVANCE, QUEUE, end, event_of
from agents_app.types import Limits, Message, RunOptions, RunStatus, Snapshot, WaitingOn
from agents_app.types.context import ContextSize
from agents_app.types.prices import PriceList
from audit_app import services as audit
from audit_app.kernel.database import is_away
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.nudges import nudge
from tools_app import selectors as tools
from tools_app.policy import emergency_stop

# Of a crash for each run of the dead process, and what sums of shares lack of whole numbers.
_LEAST_SHARE, _ROUNDING = 0.2, 1e-6
_MOST_CHARACTERS_PER_TOKEN = 8  # of whole conversations: what is longer cannot fit
_ATTEMPTS = 5  # at a claim that another worker wins; later the sweep nudges again


@dataclass(frozen=True)
class Claim:
    """A process's claim of a run, with everything it needs to continue.

    run: the row as claimed; its `fence` is the number of this claim
    history: the conversation before this run's own steps
    provider: provider of the model; that of a fallback, if the run uses one
    tools: the tools that the run may use
    resumes: an earlier claim may have begun a step without recording it
    """

    run: Run
    owner: UUID
    snapshot: Snapshot
    history: tuple[Message, ...]
    provider: ModelProvider
    prices: PriceList
    tools: OfferedTools
    resumes: bool

    @property
    def fence(self) -> int:
        return self.run.fence

    @property
    def model(self) -> str:
        return model_of(self.run, self.provider)


@dataclass(frozen=True)
class Held:
    """The state of a claimed run. is_stopped: by the emergency stop."""

    run: Run
    is_stopped: bool


def claim(owner: UUID, run_id: UUID | None = None) -> Claim | None:
    """Claim and load the given run, or the oldest claimable one. Return None if there is none.

    Owns its transactions. A run that cannot be loaded fails, unless the database is away: else it would be claimed and
    released for ever.
    """
    claimed = _claim_row(owner, run_id)
    if claimed is None:
        return None
    run, resumes = claimed
    try:
        return load(run, owner, resumes=resumes)
    except Exception as error:
        if is_away(error):
            raise
        outcome = End(RunStatus.FAILED, error.code, error.message) if isinstance(error, InvalidInput) else DEFECT
        with transaction.atomic():
            end(run, outcome, held_by=owner)
        raise


def load(run: Run, owner: UUID, *, resumes: bool = False) -> Claim:
    """Return everything that a process needs to continue a run. Reads only. run: with its agent and provider.

    Raises InvalidInput if the agent's template cannot be used.
    """
    run = use_template(run)
    offered, history = tools_of_run(run), earlier_messages(run)
    provider = provider_of(run)
    context = size_of(run, history, offered, model=model_of(run, provider))
    snapshot = load_snapshot(run)
    snapshot = replace(snapshot, context=context, voice=voice_notes.find(run, snapshot.user_turns, provider))
    return Claim(run, owner, snapshot, history, provider, selectors.price_list(provider), offered, resumes)


def earlier_messages(run: Run) -> tuple[Message, ...]:
    """Read the conversation before a run, as far as its agent's context can take it. A child run has none."""
    if run.parent_id:
        return ()
    longest = run.agent.max_context_tokens * _MOST_CHARACTERS_PER_TOKEN
    return tuple(conversation_port.get().history(run.conversation_id, run.ordinal, longest=longest))


def size_of(run: Run, history: Sequence[Message], offered: OfferedTools, *, model: str) -> ContextSize:
    """Return the size of what a run's requests contain besides its own messages.

    The last report of the server corrects it where it matters: it is read once a quarter of the context is used.
    """
    system = system_message(system_parts_of(run, offered))
    listed = offered.listed_with(offered_tools.used_names(history, ()))
    size = context_size.measure(system, history, listed, model=model)
    if 4 * (size.fixed + size.history) < limits_of(run).context_tokens:
        return size
    return replace(size, ratio=tokens.ratio_of(*selectors.last_usage(run.conversation_id, model)))


def _claim_row(owner: UUID, run_id: UUID | None) -> tuple[Run, bool] | None:
    for _ in range(_ATTEMPTS):
        if run_id:
            found = hot_queries.FIND_CLAIMABLE.rows(run_id=run_id)
        else:
            found = hot_queries.FIND_STARTED_CLAIMABLE.rows() or hot_queries.FIND_OLDEST_CLAIMABLE.rows()
        if not found:
            return None
        run = use_version(hot_queries.GET_CLAIMED_RUN.fetch(run_id=found[0][0])[0])
        resumes = run.status == RunStatus.RUNNING.value or run.waiting_on == WaitingOn.RETRY.value
        recalled = recall.find(run) if run.started_at is None else ()
        if _claim_as_read(run, owner, recalled):
            return run, resumes
    return None


def _claim_as_read(run: Run, owner: UUID, recalled: tuple[RecalledMemory, ...]) -> bool:
    """Claim a run if its row is unchanged. The reads stay out of the transaction, which locks all of SQLite.

    recalled: memories for its first claim.
    """
    try:
        with transaction.atomic():
            if not transitions.claim(run, owner):
                return False
            run.fence += 1
            if run.child_count:
                tree.collect(run.pk)
            if run.started_at is None:
                recall.record(run, recalled)
                audit.emit([event_of(run, events.RUN_STARTED, {"fence": run.fence, "agent_id": run.agent.agent_id})])
            return True
    except IntegrityError:
        return False  # another run of the conversation became active after the read


def load_snapshot(run: Run) -> Snapshot:
    """Read the recorded state of a run, on which `next_step` decides."""
    is_new = run.fence == 1  # nothing can have been recorded yet
    compactions, transcriptions = (0, 0) if is_new else selectors.count_preparations(run.id)
    return Snapshot(
        user_turns=tree.user_turns_of(run),
        steps=() if is_new else selectors.list_steps(run.id),
        executions=() if is_new else tools.list_executions(run.id),
        limits=limits_of(run),
        active_seconds=run.active_seconds,
        cancel_requested=run.cancel_requested_at is not None,
        budget_refusal=cost_budget.refusal_of(run),
        output_schema=run.output_schema,
        compactions=compactions,
        preparations=compactions + transcriptions,
        compacts_only=RunOptions.from_dict(run.options).compacts_only,
        recalled=recall.recalled_text(run),
        working=tree.working_of(run.pk) if run.child_count else (),
        is_interactive=run.child_spec.is_interactive,
        is_paused=run.is_paused,
        is_terminating=run.terminated_at is not None,
    )


def list_held(owner: UUID) -> dict[UUID, Held]:
    """Return the runs that a process owns, by id. One read without locks."""
    held = Run.objects.filter(owner=owner).only("fence", "owner", "cancel_requested_at")
    rows = held.annotate(stopped=Exists(emergency_stop.stops_of(OuterRef("agent__agent_id"))))
    return {run.id: Held(run, run.stopped) for run in rows}


def release(run: Run, owner: UUID, *, active_seconds: float) -> bool:
    """Release an unfinished run, for example while draining: the next claim calls the model again for the open step.

    Return False if the run was claimed by another process. Owns its transaction.
    """
    return _free(run, owner, active_seconds=F("active_seconds") + active_seconds)


def recover_crashed(run: Run, *, held: int = 1) -> RunStatus | None:
    """Free the run of a dead process and count the crash. The run fails when its shares reach the limit of crashes.

    run: as read, with the dead owner and its fence.
    held: runs that the process held. A crash is the fault of at most one of them, so each bears a share of it, but
        enough that one that kills each of its workers ends. Return the status that the run has now, None if the row has
        changed. Owns its transaction.
    """
    share = max(1 / held, _LEAST_SHARE)
    counted: dict[str, Any] = {"crashes": F("crashes") + 1, "crash_share": F("crash_share") + share}
    if run.crash_share + share < Limits.crashes - _ROUNDING:
        return RunStatus.RUNNING if _free(run, run.owner, **counted) else None
    message = f"The worker died {run.crashes + 1} times over this message. An operator should look at the run."
    with transaction.atomic():
        outcome = End(RunStatus.FAILED, "crashed", message)
        ended = end(run, outcome, held_by=run.owner, **counted)
    return RunStatus.FAILED if ended else None


def _free(run: Run, owner: UUID | None, **changes: Any) -> bool:
    with transaction.atomic():
        freed = transitions.move(run, RunStatus.RUNNING, held_by=owner, owner=None, ready_at=Now(), **changes)
        if freed:
            nudge(ADVANCE, str(run.id), queue=QUEUE)
        return freed
