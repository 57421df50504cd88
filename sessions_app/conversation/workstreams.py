"""The workstreams of a session, and messages and commands of people to them."""

from uuid import UUID

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.models import IS_OPEN, Run
from agents_app.services import PersonRequest
from agents_app.types.child_runs import FIRST_ORDINAL, ChildView, title_of
from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app.conversation.new_message import LONGEST_TEXT
from sessions_app.models import Session
from tools_app.types import ApprovalView

_NOT_FOUND = "There is no such workstream in this session."


def ask_workstream(
    session: Session, run_id: UUID, text: str = "", *, actor: str, command: str = runs.MESSAGE, key: str = ""
) -> None:
    """Send a message or a command to a workstream of the session. The caller has checked access to the session.

    command: `message`, or a command of `steer_workstream`.
    key: idempotency key.
    Raises InvalidInput (text_required, text_too_long), NotFound if the session has no such run, and what `ask_child`
    raises.
    """
    text = text.replace("\0", "").strip()
    if command == runs.MESSAGE and not text:
        raise InvalidInput("The message has no text.", code="text_required")
    if len(text) > LONGEST_TEXT:
        problem = f"The text has {len(text):,} characters; at most {LONGEST_TEXT:,} are allowed."
        raise InvalidInput(problem, code="text_too_long")
    if not Run.objects.filter(pk=run_id, conversation_id=session.id).exists():
        raise NotFound(_NOT_FOUND)
    runs.ask_child(run_id, PersonRequest(text, actor, command, key))


def list_session_workstreams(
    session: Session, *, offset: int, limit: int, only_open: bool = False
) -> tuple[list[UUID], tuple[ChildView, ...], int]:
    """Return a page of the workstreams of all runs of the session, by number: their ids, and the number of all.

    Between them: the views of the whole trees that they belong to, parents before their children.
    """
    rows = Run.objects.filter(conversation_id=session.id, ordinal__gte=FIRST_ORDINAL)
    rows = rows.filter(IS_OPEN) if only_open else rows
    page = list(rows.order_by("ordinal").values_list("pk", "root_id")[offset : offset + limit])
    trees = agents.list_descendants({root_id for _, root_id in page if root_id}) if page else ()
    return [run_id for run_id, _ in page], trees, rows.count()


def name_of_asker(approval: ApprovalView) -> str:
    """Return the workstream that asks, with those above it, by their names for people; empty for a root run."""
    return title_of(agents.get_run(approval.run_id).path) if approval.workstream else ""
