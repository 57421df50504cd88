"""The lease on a run: claim, release, recover. Each claim raises the fence, which voids the writes of older claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from agents_app import events, hot_queries, selectors
from agents_app.configuration.agent_versions import use_version
from agents_app.configuration.prompt_templates import use_template
from agents_app.costs import cost_budget
from agents_app.models import ON_PERSON, ModelProvider, Run
from agents_app.prompt.recalled_memories import RecalledMemory
from agents_app.runs import child_messages, claims, recall, run_events, transcription_step, transitions, turns
from agents_app.runs.claims import Claim, HeldBack
from agents_app.runs.next_step import DEFECT, End
from agents_app.runs.run_events import event_of
from agents_app.runs.run_policy import limits_of, model_of, provider_of
from agents_app.runs.transitions import ADVANCE, QUEUE, end
from agents_app.types import Limits, Message, RunStatus, Snapshot, WaitingOn
from agents_app.types.child_runs import Phase, RunKind
from agents_app.types.message_parts import VoiceNotes
from agents_app.types.prices import PriceList
from audit_app import services as audit
from audit_app.kernel.database import is_away
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.nudges import nudge
from tools_app import selectors as tools
from tools_app.catalogue import NO_FLAGS

# Of a crash for each run of the dead process, and what sums of shares lack of whole numbers.
_LEAST_SHARE, _ROUNDING = 0.2, 1e-6
_ON_CALLS = (WaitingOn.TOOLS.value, *ON_PERSON)
_BEFORE_CALL = (WaitingOn.RETRY.value, WaitingOn.BUDGET.value)  # of a step that an earlier claim may have begun
_ATTEMPTS = 5  # at a claim that another worker wins; later the sweep nudges again


@dataclass(frozen=True)
class Held:
    """The state of a claimed run. is_stopped: by the emergency stop."""

    run: Run
    is_stopped: bool


def claim(owner: UUID, run_id: UUID | None = None, *, actor: str = "", after: str = "") -> Claim | None:
    """Claim and load the given run, or the next one, of one user or of all. Return None if there is none.

    actor, after: see `turns.find_next`.

    Owns its transactions. Raises HeldBack if the run's user has as many running runs as one may have. A run that cannot
    be loaded fails, unless the database is away: else it would be claimed and released for ever.
    """
    claimed = _claim_row(owner, run_id, actor=actor, after=after)
    if claimed is None:
        return None
    run, resumes, flags = claimed
    try:
        return load(run, owner, resumes=resumes, flags=flags)
    except Exception as error:
        if not is_away(error):
            _fail(run, owner, error)
        raise


def _fail(run: Run, owner: UUID, error: Exception) -> None:
    outcome = End(RunStatus.FAILED, error.code, error.message) if isinstance(error, InvalidInput) else DEFECT
    with transaction.atomic():
        end(run, outcome, held_by=owner)


def load(run: Run, owner: UUID, *, resumes: bool = False, flags: Mapping[str, bool] = NO_FLAGS) -> Claim:
    """Return everything that a process needs to continue a run. Reads only.

    run: with its agent and provider.
    flags: those of its claim. What is absent by them is not read.
    Raises InvalidInput if the agent's template cannot be used.
    """
    run = use_template(run) if run.agent.template else run
    provider, offered = provider_of(run), claims.tools_of_run(run, flags)
    history, user_turns = claims.messages_of(run)
    snapshot = load_snapshot(run, user_turns)
    snapshot = replace(
        snapshot,
        context=claims.size_of(run, history, offered, model=model_of(run, provider)),
        voice=_voice_of(run, snapshot.user_turns, provider),
    )
    has_prices = run.fallback or flags.get("has_prices", True)
    prices = selectors.price_list(provider) if has_prices else PriceList(others=provider.price)
    return Claim(run, owner, snapshot, history, provider, prices, offered, resumes)


def load_snapshot(run: Run, user_turns: tuple[Message, ...]) -> Snapshot:
    """Read the recorded state of a run, on which `next_step` decides."""
    is_new = run.fence == 1  # nothing can have been recorded yet
    compactions, transcriptions = (0, 0) if is_new else selectors.count_preparations(run.id)
    return Snapshot(
        user_turns=user_turns,
        steps=() if is_new else selectors.list_steps(run.id),
        executions=() if is_new else tools.list_executions(run.id),
        limits=limits_of(run),
        active_seconds=run.active_seconds,
        cancel_requested=run.cancel_requested_at is not None,
        budget_refusal="" if run.options.get("question") else cost_budget.refusal_of(run),
        output_schema=run.output_schema,
        compactions=compactions,
        preparations=compactions + transcriptions,
        compacts_only=run.options.get("compacts_only", False),
        reports_only=run.kind == RunKind.REPORT.value,
        recalled=recall.recalled_text(run) if hasattr(run, "recall") else "",
        working=child_messages.working_of(run.pk) if run.child_count else (),
        is_interactive=run.parent_id is not None and run.child_spec.is_interactive,
        is_paused=run.is_paused,
        is_terminating=run.terminated_at is not None,
    )


def _voice_of(run: Run, user_turns: Sequence[Message], provider: ModelProvider) -> VoiceNotes:
    has_audio = any(part.kind == "audio" for message in user_turns for part in message.parts)
    return transcription_step.find(run, provider) if has_audio else VoiceNotes()


def _claim_row(
    owner: UUID, run_id: UUID | None, *, actor: str, after: str
) -> tuple[Run, bool, Mapping[str, bool]] | None:
    """Claim a run. Return it, whether it resumes, and the flags of its claim."""
    for _ in range(_ATTEMPTS):
        found = claims.find_claimable(run_id) if run_id else turns.find_next(actor=actor, after=after)
        if found is None:
            return None
        if found.is_held_back:
            raise HeldBack(found.run.actor)
        run = use_version(found.run) if found.run.names_version else found.run
        resumes = run.status == RunStatus.RUNNING.value or run.waiting_on in _BEFORE_CALL
        recalls = found.flags["has_memories"] and run.agent.memory_budget_tokens and run.started_at is None
        recalled = recall.find(run) if recalls else ()
        adopts = found.flags["may_adopt"] and run.can_adopt and run.started_at is None
        if _claim_as_read(run, owner, recalled, adopts=adopts):
            return run, resumes, found.flags
    return None


def _claim_as_read(run: Run, owner: UUID, recalled: tuple[RecalledMemory, ...], *, adopts: bool) -> bool:
    """Claim a run if its row is unchanged. The reads stay out of the transaction, which locks all of SQLite.

    recalled, adopts: memories for its first claim, and whether there are child runs on their own for it.
    """
    try:
        with transaction.atomic():
            if not transitions.claim(run, owner):
                return False
            run.fence, run.reserved_tokens = run.fence + 1, 0
            if run.child_count or adopts:
                child_messages.receive(run, adopts=adopts)
            if run.started_at is None:
                _record_start(run, recalled)
            elif run.parent_id and run.waiting_on in _ON_CALLS:
                child_messages.note_progress(run)
                audit.emit(run_events.phase_changed(run, Phase.SYNTHESIZING))
            return True
    except IntegrityError:
        return False  # another run of the conversation became active after the read


def _record_start(run: Run, recalled: tuple[RecalledMemory, ...]) -> None:
    if recalled:
        recall.record(run, recalled)
    audit.emit([event_of(run, events.RUN_STARTED, {"fence": run.fence, "agent_id": run.agent.agent_id})])


def list_held(owner: UUID) -> dict[UUID, Held]:
    """Return the runs that a process owns, by id. One read without locks."""
    return {
        run_id: Held(Run(id=run_id, owner=owner, fence=fence, cancel_requested_at=cancelled_at), is_stopped)
        for run_id, fence, cancelled_at, is_stopped in hot_queries.LIST_OWN_RUNS.rows(owner=owner)
    }


def reason_to_stop(claim: Claim, held: Held | None) -> str:
    """Return the reason for which the model call of a claim has to stop; empty if there is none. held: its row."""
    if held is None or held.run.fence != claim.fence:
        return "fenced"
    if held.run.cancel_requested_at:
        return "cancelled"
    return "stopped" if held.is_stopped else ""


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
        with transaction.atomic():
            freed = _free(run, run.owner, **counted)
            if freed:
                _record_recovery(run)
        return RunStatus.RUNNING if freed else None
    message = f"The worker died {run.crashes + 1} times over this message. An operator should look at the run."
    with transaction.atomic():
        outcome = End(RunStatus.FAILED, "crashed", message)
        ended = end(run, outcome, held_by=run.owner, **counted)
    return RunStatus.FAILED if ended else None


def _record_recovery(run: Run) -> None:
    details = {"run_id": str(run.id), "process": str(run.owner)}
    session_id, session_key = run.conversation_id, run.session_key
    audit.record("RunRecovered", actor="system", details=details, session_id=session_id, session_key=session_key)


def _free(run: Run, owner: UUID | None, **changes: Any) -> bool:
    with transaction.atomic():
        freed = transitions.move(run, RunStatus.RUNNING, held_by=owner, owner=None, ready_at=Now(), **changes)
        if freed:
            nudge(ADVANCE, str(run.id), queue=QUEUE)
        return freed


def refresh_waiting_on(run_id: UUID) -> None:
    """Recompute what a parked run waits for, after a decision, an answer or a time-out."""
    if tools.has_pending_approval(run_id):
        waiting_on = WaitingOn.APPROVAL
    else:
        waiting_on = WaitingOn.INPUT if tools.has_open_question(run_id) else WaitingOn.TOOLS
    on_person = Q(waiting_on=WaitingOn.APPROVAL.value) | Q(waiting_on=WaitingOn.INPUT.value)
    Run.objects.filter(on_person, pk=run_id, status=RunStatus.WAITING).update(waiting_on=waiting_on)
