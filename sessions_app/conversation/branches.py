"""Branches of sessions: beginning one with a message that replaces another, and selecting the active one."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from agents_app import selectors as agents
from agents_app.errors import RunBusy
from agents_app.models import IS_ROOT, Run
from agents_app.types import RunOptions
from audit_app import services as audit
from audit_app.event_types import NewEvent
from audit_app.kernel.errors import Conflict, NotFound, found
from sessions_app import events
from sessions_app.conversation import branch_paths
from sessions_app.conversation.branch_paths import Branches, BranchView
from sessions_app.conversation.session_key import STORED_CHANNELS
from sessions_app.conversation.sessions import event_about, lock
from sessions_app.models import Branch, Session, Turn
from tools_app.types.authors import Author

REMOVED = -1  # branch of turns that were removed: on no path
_DEEPEST = 100
_BUSY = "A message of this session is not answered yet. Wait for its answer or stop it, then try again."
_NO_RUN = "There is no such run in this session."


@dataclass(frozen=True)
class Replacement:
    """A message of a session in whose place another one begins a branch.

    parent, replaces: where the branch departs.
    reason: edited | regenerated.
    attached: the text of their files, for the model.
    author: of the text.
    options, denied_tools: those of the run that answered it.
    """

    parent: int
    replaces: int
    reason: str
    text: str
    attached: str
    author: Author
    turn_ids: tuple[UUID, ...]
    options: RunOptions
    denied_tools: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.reason} {self.parent}.{self.replaces}"


def find_replacement(session: Session, run_id: UUID | None, reason: str) -> Replacement:
    """Return the message that a run of the session answers. None: the last run of the active branch. Reads only.

    The run of a retry answers the message of the retried run.
    Raises NotFound, and Conflict (channel_message, no_message) for a message that cannot be replaced.
    """
    if session.channel not in STORED_CHANNELS:
        problem = f"{session.channel} keeps showing this message. Write a new one there instead."
        raise Conflict(problem, code="channel_message")
    run, turns = _message_of(session, run_id or _last_run_id(session))
    parent, replaces = branch_paths.origin_of(load(session.id), turns[0].branch, run.ordinal)
    return Replacement(
        parent,
        replaces,
        reason,
        text="\n\n".join(turn.content for turn in turns),
        attached="\n\n".join(turn.attached for turn in turns if turn.attached),
        author=Author.of_all(turn.author for turn in turns),
        turn_ids=tuple(turn.pk for turn in turns),
        options=replace(RunOptions.from_dict(run.options), note=None, retry_of="", agent_version=None),
        denied_tools=tuple(run.session_policy.get("deniedTools", ())),
    )


def begin(session: Session, replaced: Replacement) -> NewEvent:
    """Begin a branch and make it the active one; return the event to emit.

    In the caller's transaction, which has locked the session and stores the message. Raises RunBusy, and Conflict
    (too_many_branches).
    """
    _check_idle(session)
    branches = dict(load(session.id))
    if len(branch_paths.path_to(branches, replaced.parent)) > _DEEPEST:
        problem = (
            f"This message is in the {_DEEPEST}th branch of a branch. Edit an earlier message, or begin a new chat."
        )
        raise Conflict(problem, code="too_many_branches")
    number = 1 + max(branches, default=0)
    branch = BranchView(number, replaced.parent, replaced.replaces, session.next_ordinal)
    Branch.objects.create(session=session, created_at=timezone.now(), **vars(branch))
    return _activate(session, {**branches, number: branch}, number, replaced.reason)


def select_branch(session: Session, number: int) -> None:
    """Make a branch the active one: later runs read its turns, and later messages continue it. Idempotent.

    Owns its transaction. Raises NotFound, and RunBusy while a run of the session is open.
    """
    with transaction.atomic():
        session = lock(session.id)
        branches = load(session.id)
        _check_known(branches, number)
        if session.active_branch != number:
            _check_idle(session)
            audit.emit([_activate(session, branches, number, "selected")])


def load(session_id: UUID) -> Branches:
    """Return the branches of a session by number. A session whose messages were never replaced has none."""
    rows = Branch.objects.filter(session_id=session_id).values_list("number", "parent", "replaces", "ordinal")
    return {row[0]: BranchView(*row) for row in rows}


def turns_of(session_id: UUID, number: int) -> Q:
    """Return the condition for the turns on the path of a branch. Raises NotFound."""
    branches = load(session_id)
    _check_known(branches, number)
    links = branch_paths.path_to(branches, number)
    return reduce(or_, (Q(branch=branch, ordinal__lt=below) for branch, below in links))


def branch_of_run(session_id: UUID, ordinal: int) -> int:
    """Return the number of the branch of a run, by the turns stored for it; that of an open run is the active one."""
    turns = Turn.objects.filter(session_id=session_id, ordinal=ordinal).exclude(branch=REMOVED)
    stored = turns.values_list("branch", flat=True).first()
    if stored is not None:
        return stored
    return Session.objects.values_list("active_branch", flat=True).get(pk=session_id)


def is_off_path(session: Session, run_id: UUID) -> bool:
    """Return whether the active branch leaves the run out."""
    return Turn.objects.filter(session=session, run_id=run_id, is_off_path=True).exclude(branch=REMOVED).exists()


def _activate(session: Session, branches: Branches, number: int, reason: str) -> NewEvent:
    runs = set(Turn.objects.filter(session=session).order_by().values_list("branch", "ordinal").distinct())
    old, new = (branch_paths.path_to(branches, one) for one in (session.active_branch, number))
    for path, other, is_off in ((old, new, True), (new, old, False)):
        changed = [run[1] for run in runs if branch_paths.has_run(path, *run) and not branch_paths.has_run(other, *run)]
        turns = Turn.objects.filter(session=session, ordinal__in=changed).exclude(branch=REMOVED)
        turns.update(is_off_path=is_off)
    Session.objects.filter(pk=session.pk).update(active_branch=number)
    session.active_branch = number
    selected: events.BranchSelected = {
        "branch": number,
        "place": branch_paths.first_difference(runs, old, new),
        "reason": reason,
    }
    return event_about(session, events.BRANCH_SELECTED, selected)


def _check_idle(session: Session) -> None:
    """Raise RunBusy unless all turns of the session's runs are stored. The caller holds the session's lock."""
    if agents.has_unstored_runs(session.id):
        raise RunBusy(_BUSY)


def _check_known(branches: Branches, number: int) -> None:
    if number and number not in branches:
        raise NotFound("There is no such branch in this session.")


def _last_run_id(session: Session) -> UUID | None:
    turns = Turn.objects.filter(session=session, is_off_path=False).order_by("-ordinal", "-part")
    rows = turns.exclude(is_answer=True, content="", state="complete")  # of a run that only compacted
    return rows.values_list("run_id", flat=True).first()


def _message_of(session: Session, run_id: UUID | None) -> tuple[Run, Sequence[Turn]]:
    """Return a run and the user turns that it answers; for a retry, those of the run that it retries."""
    if run_id is None:
        raise Conflict("This session has no answer that could be generated again.", code="no_message")
    run = found(Run.objects.filter(IS_ROOT, pk=run_id, conversation_id=session.id).first(), _NO_RUN)
    # An answer to a question of the agent is a part of the run, not a message.
    turns = Turn.objects.filter(session=session, run_id=run.pk, role="user", tool_call_ids__isnull=True)
    if stored := list(turns.exclude(branch=REMOVED).order_by("part")):
        return run, stored
    if retried := run.options.get("retry_of"):
        return _message_of(session, UUID(retried))
    raise Conflict("This run has no message that can be sent again.", code="no_message")
