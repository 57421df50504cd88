"""Messages and commands of people to child runs. Functions own their transactions.

A person has the place of the parent: the child run receives the person's own words, and the parent one line about them.
"""

from dataclasses import dataclass, replace
from uuid import UUID

from django.db import transaction

from agents_app.errors import IdempotencyMismatch
from agents_app.models import Run, RunMessage
from agents_app.prompt import child_texts
from agents_app.runs import child_messages, children, run_events
from agents_app.runs.child_messages import RunNote
from agents_app.types.child_runs import MessageKind
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, found
from audit_app.kernel.ids import derived_id

MESSAGE = "message"


@dataclass(frozen=True)
class PersonRequest:
    """A message or a command of a person to a child run.

    command: `message`, or one of `children.COMMANDS`.
    actor: the person, for the audit log.
    key: idempotency key, unique among those of the actor for one child run; empty: none.
    """

    text: str
    actor: str
    command: str = MESSAGE
    key: str = ""


def ask_child(run_id: UUID, request: PersonRequest) -> None:
    """Send a message or a command of a person to a child run. Idempotent under the request's key.

    A message is the next task of one that waits for its parent. One that a person has paused counts as working, so that
    its parent waits for it, and continues when a person resumes it.
    Raises NotFound, InvalidInput (unknown_command, text_required), IdempotencyMismatch and Conflict (workstream_ended,
    not_a_workstream for a root run).
    """
    while not _ask_locked(run_id, request):
        pass  # another run has become its listener before the locks were held


def _ask_locked(run_id: UUID, request: PersonRequest) -> bool:
    """Carry out a request under the locks of the child run and its listener. Return False if the listener changed."""
    with transaction.atomic():
        listener_id = _listener_of(run_id)
        children.lock_in_tree(listener_id)
        child = Run.objects.select_for_update(of=("self",), no_key=True).select_related("agent").get(pk=run_id)
        if (child.listener_id or child.parent_id) != listener_id:
            return False
        key = derived_id(run_id, f"{request.actor} {request.key}") if request.key else None
        if not (key and _is_repeated(key, request)):
            _carry_out(listener_id, child, request, key)
            line = child_texts.person_text(child.workstream, child.pk, request.command, request.text)
            child_messages.send(listener_id, RunNote(MessageKind.NOTICE, line, about=child.pk, resumes=False))
            event = run_events.steered(child, request.command, request.text, request.key)
            audit.emit([replace(event, actor=request.actor)])
        return True


def _listener_of(run_id: UUID) -> UUID:
    """Return the run that gets the results of a child run; if it is on its own, the one that got them last."""
    run = found(Run.objects.filter(pk=run_id).only("parent_id", "listener_id").first(), "There is no such workstream.")
    if run.parent_id is None:
        problem = "This run answers a message of its session. Write to the session instead."
        raise Conflict(problem, code="not_a_workstream")
    return run.listener_id or run.parent_id


def _is_repeated(key: UUID, request: PersonRequest) -> bool:
    """Return whether a request with this key has been carried out. Raises IdempotencyMismatch if it was another one."""
    sent = RunMessage.objects.filter(pk=key).values_list("text", flat=True).first()
    if sent is not None and sent != children.text_of(request.command, request.text):
        raise IdempotencyMismatch
    return sent is not None


def _carry_out(listener_id: UUID, child: Run, request: PersonRequest, key: UUID | None) -> None:
    if request.command == MESSAGE:
        kind = MessageKind.PERSON
        children.message_child(listener_id, child.pk, request.text, key=key, kind=kind)
    else:
        children.steer_child(listener_id, child.pk, request.command, request.text, key=key, person=request.actor)
