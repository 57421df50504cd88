"""Requests of tasks to people: approvals and questions, as a client reads and answers them. Synchronous."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

from agents_app import selectors as agents
from agents_app.types import RunStatus, RunView
from agents_app.types.child_runs import title_of
from audit_app.kernel.errors import InvalidInput
from audit_app.kernel.redact import masked_arguments
from sessions_app.access import access_approval
from sessions_app.approvals import decisions, permissions, prompt_text
from sessions_app.conversation.workstreams import name_of_asker
from sessions_app.identity.principal import Principal
from sessions_app.models import Session
from sessions_app.surfaces.a2a.requests import SendRequest
from sessions_app.surfaces.a2a.responses import AUTH_REQUIRED, INPUT_REQUIRED, Ask
from sessions_app.surfaces.base.timestamps import iso
from tools_app import selectors as tools
from tools_app.services import AlreadyDecided
from tools_app.types import ApprovalView, Decision
from tools_app.types.questions import InputView, text_of

_ROOM = 4_000  # characters of the arguments of a call
_RECENT = 50
_HOW = "Answer with `approve ID` or `deny ID why not`, where ID is in the status message of the task."


def is_approval(asked: ApprovalView | InputView) -> bool:
    return isinstance(asked, ApprovalView)


def open_asks(root_ids: Collection[UUID]) -> dict[UUID, ApprovalView | InputView]:
    """Return the first open request of each of these root runs and the workstreams below it."""
    if not root_ids:
        return {}
    roots = {run_id: run_id for run_id in root_ids}
    for child in agents.list_descendants(root_ids):  # a parent is older than its children
        roots[child.launch_id] = roots.get(child.parent_id, child.launch_id)
    approvals = tools.pending_approvals().select_related("execution").filter(run_id__in=roots)
    questions = tools.pending_questions().filter(run_id__in=roots)
    every: list[ApprovalView | InputView] = [*map(tools.approval_view, approvals), *map(tools.input_view, questions)]
    found: dict[UUID, ApprovalView | InputView] = {}
    for asked in sorted(every, key=lambda asked: asked.id.hex):  # ids begin with the time
        found.setdefault(roots[asked.run_id], asked)
    return found


def first_asks(
    principal: Principal, runs: Sequence[RunView], sessions: Mapping[UUID, Session], *, also_running: bool = False
) -> dict[UUID, Ask]:
    """Return the first open request of those of the runs that wait, by run.

    also_running: of those that work, too, while a workstream of theirs asks.
    """
    statuses = (RunStatus.WAITING, RunStatus.RUNNING) if also_running else (RunStatus.WAITING,)
    session_of = {run.id: run.conversation_id for run in runs if run.status in statuses}
    return {
        run_id: _shown(principal, asked, sessions[session_of[run_id]])
        for run_id, asked in open_asks(session_of.keys()).items()
        if session_of[run_id] in sessions
    }


def _shown(principal: Principal, asked: ApprovalView | InputView, session: Session) -> Ask:
    if isinstance(asked, ApprovalView):
        return _approval(principal, asked, session)
    asker = title_of(agents.get_run(asked.run_id).path)
    text = text_of(asked.questions)
    data = {
        "questionId": str(asked.id),
        "askedBy": asker or session.agent.name,
        "questions": [
            {
                "text": question.text,
                "options": [{"id": option.id, "label": option.label} for option in question.options],
                "allowsText": question.allows_text,
                "allowsSeveral": question.allows_several,
            }
            for question in asked.questions
        ],
        "expiresAt": iso(asked.expires_at),
    }
    shown = f"**{asker}** asks: {text}" if asker else text
    return Ask(asked.id, asked.run_id, INPUT_REQUIRED, shown, data, principal.can_write)


def _approval(principal: Principal, asked: ApprovalView, session: Session) -> Ask:
    decider = permissions.deciding_user_id(asked, session.owner_id)
    allowed = permissions.allowed_decisions(principal.user, decider) if principal.can_write else ()
    narrowed = prompt_text.narrowed(asked, allowed)
    asker = name_of_asker(asked) or session.agent.name
    text = prompt_text.prompt(
        narrowed, None, agent_name=asker, may_decide=bool(narrowed.choices), has_buttons=False, room=_ROOM
    )
    data = {
        "approvalId": str(asked.id),
        "askedBy": asker,
        "tool": asked.tool,
        "arguments": masked_arguments(asked.arguments),
        "risk": asked.risk,
        "reason": asked.reason,
        "decisions": [choice.value for choice in narrowed.choices],
        "expiresAt": iso(asked.expires_at),
    }
    return Ask(asked.id, asked.run_id, AUTH_REQUIRED, text, data, bool(narrowed.choices))


def decide(principal: Principal, session: Session, tree: Collection[UUID], request: SendRequest) -> None:
    """Decide the approval that a message names, as the caller. One that is decided already stays as it is.

    tree: the runs of the task. Raises InvalidInput (decision_unclear), what `access_approval` and `decide` raise.
    """
    asked, decision, note = _named(session, tree, request)
    access_approval(principal.user, asked.id, decision=decision)
    try:
        decisions.decide(
            asked.id, decision=decision, actor=principal.actor, has_fresh_login=principal.has_fresh_login, note=note
        )
    except AlreadyDecided:
        return  # by the same message, sent again, or elsewhere


def _named(session: Session, tree: Collection[UUID], request: SendRequest) -> tuple[ApprovalView, str, str]:
    """Return the approval that a message names, the decision and the note.

    A message without the id decides nothing: the call that its sender has seen may not be the one that waits now.
    """
    known = [view for view in tools.list_approvals(session_ids=[session.pk], limit=_RECENT) if view.run_id in tree]
    for value in request.data:
        if isinstance(value, Mapping) and "approvalId" in value:
            note = value.get("note") or ""
            found = next((view for view in known if str(view.id) == value["approvalId"]), None)
            decision = value.get("decision")
            if found and decision in tuple(Decision) and isinstance(note, str):
                return found, str(decision), note
    command = prompt_text.read_command(f"/{request.text.strip().lstrip('/')}")
    if command and request.text.strip().lstrip("/").startswith(("approve", "deny")):
        name, chosen, note = command
        if name and (found := prompt_text.find_named(name, known)):
            return found, chosen.value, note
    raise InvalidInput(f"The message decides no call. {_HOW}", code="decision_unclear", param="message.parts")
