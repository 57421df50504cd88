"""The gates: the only way a request obtains a session, run, execution or agent.

A missing object and another's object are the same NotFound, so that nobody can tell them apart.
"""

from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User

from agents_app import selectors as agents
from agents_app.models import Agent
from agents_app.types import RunView
from audit_app.kernel.errors import Forbidden, NotFound
from sessions_app import hot_queries, selectors
from sessions_app.approvals import permissions
from sessions_app.conversation.session_key import parse_key
from sessions_app.models import Session
from tools_app import selectors as tools
from tools_app.storage import artifacts
from tools_app.storage.artifacts import ArtifactView
from tools_app.types import ApprovalView, ExecutionView


def access_session(user: User | AnonymousUser, id_or_key: str | UUID) -> Session:
    """The user's own session by UUID or public id (raw or percent-encoded), with its agent."""
    if found := _uuid(id_or_key):
        session = hot_queries.FIND_ACCESSIBLE_SESSION.first(session_id=found)
    else:
        spellings = dict.fromkeys(_spellings(str(id_or_key)))
        found_by_key = (hot_queries.FIND_ACCESSIBLE_SESSION_BY_KEY.first(key=key) for key in spellings)
        session = next(filter(None, found_by_key), None)
    if session is None or not user.is_authenticated or session.owner_id != user.pk:
        raise NotFound("There is no such session.")
    return session


def access_run(user: User | AnonymousUser, run_id: str | UUID) -> RunView:
    """A run of one of the user's sessions."""
    run = agents.get_run(_uuid_or_404(run_id, "run"))
    _gate_conversation(user, run.conversation_id, "run")
    return run


def access_execution(user: User | AnonymousUser, execution_id: str | UUID) -> ExecutionView:
    """A tool execution in one of the user's sessions."""
    execution = tools.get_execution(_uuid_or_404(execution_id, "tool execution"))
    _gate_conversation(user, execution.session_id, "tool execution")
    return execution


def access_artifact(user: User | AnonymousUser, artifact_id: str | UUID) -> ArtifactView:
    """A file of one of the user's sessions."""
    artifact = artifacts.get_artifact(_uuid_or_404(artifact_id, "file"))
    _gate_conversation(user, artifact.session_id, "file")
    return artifact


def access_approval(user: User | AnonymousUser, approval_id: str | UUID, *, to_decide: bool = False) -> ApprovalView:
    """A request for approval that the user may see; Forbidden when it takes somebody else to decide it."""
    approval = tools.get_approval(_uuid_or_404(approval_id, "approval"))
    owner_id = selectors.find_owner_id(approval.session_id)
    if not permissions.may_see(user, owner_id):
        raise NotFound("There is no such approval.")
    if to_decide and not permissions.may_decide(user, owner_id):
        raise Forbidden("Only an operator may decide this request.")
    return approval


def access_agent(user: User | AnonymousUser, agent_id: str, *, to_change: bool = False) -> Agent:
    """Everyone may talk to an agent; only staff and its owner may change it (Forbidden)."""
    if not user.is_authenticated:
        raise NotFound(f"There is no agent {agent_id!r}.", code="unknown_agent")
    agent = agents.get_agent(agent_id)
    if to_change and not permissions.may_change(user, agent):
        raise Forbidden("Only an operator or its owner may change this agent.")
    return agent


def _gate_conversation(user: User | AnonymousUser, session_id: UUID, noun: str) -> None:
    try:
        access_session(user, session_id)
    except NotFound:
        raise NotFound(f"There is no such {noun}.") from None


def _uuid(text: str | UUID) -> UUID | None:
    if isinstance(text, UUID):
        return text
    try:
        return UUID(text)
    except ValueError:
        return None


def _uuid_or_404(text: str | UUID, noun: str) -> UUID:
    found = _uuid(text)
    if found is None:
        raise NotFound(f"There is no such {noun}.")
    return found


def _spellings(text: str) -> list[str]:
    """A public id as given, and in its stored spelling, whichever way its parts were encoded."""
    try:
        return [text, str(parse_key(text))]
    except Exception:  # not of the form at all: then it names nothing
        return [text]
