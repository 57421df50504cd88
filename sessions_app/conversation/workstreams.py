"""Messages and commands of people to the workstreams of a session."""

from uuid import UUID

from agents_app import services as runs
from agents_app.models import Run
from agents_app.services import PersonRequest
from audit_app.kernel.errors import InvalidInput, NotFound
from sessions_app.conversation.new_message import LONGEST_TEXT
from sessions_app.models import Session

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
