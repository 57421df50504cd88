"""Access checks of objects that a request names: sessions, runs, executions, artifacts, approvals, agents, networks.

Every function returns an object only if the user may see it. A missing object and one of another user raise the same
NotFound, so that ids cannot be probed. Rows that belong to a session, such as its turns, are read after the session was
checked; lists of them are read by owner (`sessions_app.selectors`). No function needs a transaction.
"""

from collections.abc import Collection, Sequence
from uuid import UUID

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet

from agents_app import selectors as agents
from agents_app.configuration import agent_access
from agents_app.configuration.agent_access import HiddenAgent
from agents_app.models import Agent, StoredNetwork
from agents_app.network_runs import library as networks
from agents_app.rights import VIEW_COSTS
from agents_app.types import RunView
from audit_app import services as audit
from audit_app.kernel.errors import AppError, NotFound, found
from audit_app.rights import Right, holds, require
from sessions_app import hot_queries, selectors
from sessions_app.approvals import permissions
from sessions_app.attachments import uploads, user_files
from sessions_app.conversation.session_key import SessionKey, parse_key
from sessions_app.identity import scopes
from sessions_app.identity.own_actors import own_actors
from sessions_app.models import Attachment, ChannelAccount, Schedule, Session, UserFile
from sessions_app.platforms.registry import own_senders
from sessions_app.rights import MANAGE_CHANNELS, VIEW_CHANNELS, VIEW_SESSIONS
from sessions_app.schedules import plans as schedules
from tools_app import selectors as tools
from tools_app.storage import artifacts, own_memories
from tools_app.storage.artifacts import ArtifactView
from tools_app.types import ApprovalView, ExecutionView

_MOST_AGENTS = 200  # of a list without pages


def access_session(user: User | AnonymousUser, id_or_key: str | UUID, *, needs: Right | None = None) -> Session:
    """Return the user's session, loaded with the agent.

    id_or_key: UUID or public id of the session, raw or percent-encoded.
    needs: the right with which users who may see it have access to a session of others, such as that of a channel. Such
        access is audited.
    Raises NotFound, also for a deleted session; MissingScope if the user's key is limited to other agents, and
    MissingRight.
    """
    return _check_access(user, _find_session(id_or_key), needs)


def find_refusals(viewers: Sequence[tuple[User, UUID]]) -> list[AppError | None]:
    """Check again that users may see sessions, and return an error for each who may not. One statement."""
    fields = ("id", "owner_id", "agent__agent_id")
    rows = hot_queries.ACCESSIBLE_SESSIONS.filter(pk__in={session_id for _, session_id in viewers}).only(*fields)
    sessions, refusals = {row.pk: row for row in rows}, list[AppError | None]()
    for user, session_id in viewers:
        try:
            _check_access(user, sessions.get(session_id))
            refusals.append(None)
        except AppError as error:
            refusals.append(error)
    return refusals


def _check_access(user: User | AnonymousUser, session: Session | None, needs: Right | None = None) -> Session:
    is_own = session is not None and user.is_authenticated and session.owner_id == user.pk
    if session is None or not (is_own or (needs and (holds(user, VIEW_SESSIONS) or holds(user, needs)))):
        raise NotFound("There is no such session.")
    scopes.require_agent(user, session.agent)
    if needs and not is_own:
        require(user, needs)
        _record_access(user, session, needs)
    return session


def _find_session(id_or_key: str | UUID) -> Session | None:
    if session_id := _uuid(id_or_key):
        return hot_queries.FIND_ACCESSIBLE_SESSION.first(session_id=session_id)
    spellings = dict.fromkeys(_spellings(str(id_or_key)))
    found_by_key = (hot_queries.FIND_ACCESSIBLE_SESSION_BY_KEY.first(key=key) for key in spellings)
    return next(filter(None, found_by_key), None)


def access_conversation(key: SessionKey) -> Session:
    """Return the session that a channel's sender writes in. key: made of verified ids alone. Raises NotFound."""
    session = Session.objects.select_related("agent").filter(key=str(key)).first()
    if session is None:
        raise NotFound("This conversation has no messages yet.", code="no_conversation")
    return session


def find_conversations(keys: Collection[str]) -> dict[str, UUID]:
    """Return the sessions that channels' senders write in, by those of the keys that have one. One statement."""
    return dict(Session.objects.filter(key__in=keys).values_list("key", "pk"))


def _record_access(user: User | AnonymousUser, session: Session, right: Right) -> None:
    audit.record(
        "SessionAccessed",
        details={"right": right.permission},
        actor=f"user:{user.pk}",
        agent_id=session.agent.agent_id,
        session_id=session.pk,
        session_key=session.key,
    )


def access_run(user: User | AnonymousUser, run_id: str | UUID, *, needs: Right | None = None) -> RunView:
    """Return a run of one of the user's sessions. needs: as for `access_session`. Raises NotFound and MissingRight."""
    return access_run_and_session(user, run_id, needs=needs)[0]


def access_run_and_session(
    user: User | AnonymousUser, run_id: str | UUID, *, needs: Right | None = None
) -> tuple[RunView, Session]:
    """Return a run of one of the user's sessions, and the session. As `access_run`."""
    run = agents.get_run(uuid_or_404(run_id, "run"))
    return run, _check_session(user, run.conversation_id, "run", needs)


def access_execution(user: User | AnonymousUser, execution_id: str | UUID) -> ExecutionView:
    """Return a tool execution of one of the user's sessions. Raises NotFound."""
    return access_execution_and_session(user, execution_id)[0]


def access_execution_and_session(
    user: User | AnonymousUser, execution_id: str | UUID, *, needs: Right | None = None
) -> tuple[ExecutionView, Session]:
    """Return a tool execution of one of the user's sessions, and the session. needs: as for `access_session`.

    Raises NotFound and MissingRight.
    """
    execution = tools.get_execution(uuid_or_404(execution_id, "tool execution"))
    return execution, _check_session(user, execution.session_id, "tool execution", needs)


def access_artifact(user: User | AnonymousUser, artifact_id: str | UUID, *, needs: Right | None = None) -> ArtifactView:
    """Return an artifact of one of the user's sessions. needs: as for `access_session`.

    Raises NotFound and MissingRight.
    """
    artifact = artifacts.get_artifact(uuid_or_404(artifact_id, "file"))
    _check_session(user, artifact.session_id, "file", needs)
    return artifact


def access_unsent_file(user: User | AnonymousUser, attachment_id: str | UUID) -> Attachment:
    """Return a file that the user has uploaded for a message and not sent. Raises NotFound."""
    return uploads.find_unsent(user, uuid_or_404(attachment_id, "file"))


def access_user_file(user: User | AnonymousUser, file_id: str | UUID) -> UserFile:
    """Return a file that the user keeps for several messages. Raises NotFound, also once it has expired."""
    row = user_files.files_of(user).filter(pk=uuid_or_404(file_id, "file")).first()
    return found(row, "There is no such file.")


def access_sent_file(
    user: User | AnonymousUser, attachment_id: str | UUID, *, needs: Right | None = None
) -> Attachment:
    """Return a file of a message in one of the user's sessions. needs: as for `access_session`.

    Raises NotFound and MissingRight.
    """
    row = Attachment.objects.select_related("turn").filter(pk=uuid_or_404(attachment_id, "file")).first()
    if row is None or row.turn is None:
        raise NotFound("There is no such file.")
    _check_session(user, row.turn.session_id, "file", needs)
    return row


def access_approval(user: User | AnonymousUser, approval_id: str | UUID, *, decision: str = "") -> ApprovalView:
    """Return an approval that the user may see: of a session of theirs, of a call with credentials of theirs if owners
    decide, or any with the right to see or decide it.

    decision: the one that the user wants to make; empty to only see it. Call it outside of a transaction then.
    Raises NotFound (audited if there is one), and MissingRight if they may see it but not make the decision.
    """
    approval = tools.get_approval(uuid_or_404(approval_id, "approval"))
    owner_id = selectors.find_owner_id(approval.session_id)
    if scopes.agents_of(user) is not None:
        _check_session(user, approval.session_id, "approval")
    decider_id = permissions.deciding_user_id(approval, owner_id)
    if not (permissions.may_see(user, owner_id) or permissions.allowed_decisions(user, decider_id)):
        permissions.record_hidden(user, approval.id)
        raise NotFound("There is no such approval.")
    if decision:
        permissions.check_decision(user, decider_id, decision)
    return approval


def memory_owner(user: User) -> own_memories.Owner:
    """Return whose memories the user may see and change: the user's own, of the agents that the user's key has."""
    return own_memories.Owner(f"user:{user.pk}", own_actors(user), scopes.agents_of(user))


def usage_actors(user: User, of_user_id: int | None = None) -> tuple[str, ...] | None:
    """Return the actors whose usage the user may see: their own, all (None) for holders of the right.

    of_user_id: only the usage of this user. Raises MissingRight if it is of another one.
    """
    if of_user_id == user.pk:
        return own_actors(user)
    if of_user_id is not None:
        require(user, VIEW_COSTS)
        return (f"user:{of_user_id}",)
    return None if holds(user, VIEW_COSTS) else own_actors(user)


def access_agent(
    user: User | AnonymousUser, agent_id: str, *, or_visible: bool = False, needs: Right | None = None
) -> Agent:
    """Return an agent by public id, if the user may use it.

    or_visible: also return it if the user may only see the configuration.
    needs: right that users other than the owner need for the operation; its holders find the object.
    Raises NotFound (unknown_agent; audited if there is one), MissingScope and MissingRight.
    """
    is_found = or_visible or needs is not None
    try:
        agent = agent_access.get_usable_agent(user, agent_id, or_visible=is_found, or_held=needs)
    except HiddenAgent as refusal:
        agent_access.record_refusal(user, refusal)
        raise
    scopes.require_agent(user, agent)
    if needs is not None and agent.owner_id != user.pk:
        require(user, needs)
    return agent


def access_schedule(user: User | AnonymousUser, agent_id: str, task_id: str) -> Schedule:
    """Return a schedule of the user by the public ids of agent and schedule. Raises NotFound (unknown_schedule)."""
    return schedules.find(_own_schedules(user), agent_id, task_id)


def access_schedule_by_id(user: User | AnonymousUser, schedule_id: str) -> Schedule:
    """Return a schedule of the user by its id. Raises NotFound."""
    rows = _own_schedules(user).select_related("agent", "session").filter(pk=uuid_or_404(schedule_id, "schedule"))
    return found(rows.first(), "There is no such schedule.")


def list_schedules(user: User | AnonymousUser) -> list[Schedule]:
    """Return the user's schedules, newest first, of the agents that the scopes of the user's key allow."""
    return list(_own_schedules(user).select_related("agent", "session"))


def _own_schedules(user: User | AnonymousUser) -> QuerySet[Schedule]:
    among = scopes.agents_of(user)
    own = Schedule.objects.filter(owner_id=user.pk) if user.is_authenticated else Schedule.objects.none()
    return own if among is None else own.filter(agent__agent_id__in=among)


def access_channel_account(user: User | AnonymousUser, account_id: UUID, *enough: Right) -> ChannelAccount:
    """Return a channel account, enabled or not, with the agent. enough: rights of which one is needed.

    Raises MissingRight and NotFound (unknown_channel_account).
    """
    _require_one(user, enough)
    account = ChannelAccount.objects.select_related("agent", "connection").filter(pk=account_id).first()
    return found(account, "There is no such channel account.", code="unknown_channel_account")


def list_channel_accounts(user: User | AnonymousUser) -> list[ChannelAccount]:
    """Return all channel accounts with their agents. Raises MissingRight."""
    _require_one(user, (VIEW_CHANNELS, MANAGE_CHANNELS))
    rows = ChannelAccount.objects.exclude(channel__in=own_senders.names())
    return list(rows.select_related("agent", "connection"))


def _require_one(user: User | AnonymousUser, enough: Sequence[Right]) -> None:
    if not any(holds(user, right) for right in enough):
        require(user, enough[0])


def access_network(user: User | AnonymousUser, name: str, *, needs: Right | None = None) -> StoredNetwork:
    """Return a network that the user may see.

    needs: right that users other than the owner need for the operation.
    Raises NotFound (unknown_network) and MissingRight.
    """
    stored = networks.get_visible(user, name, or_held=needs)
    if needs is not None and not (user.is_authenticated and stored.owner_id == user.pk):
        require(user, needs)
    return stored


def access_runnable_network(user: User | AnonymousUser, name: str) -> StoredNetwork:
    """Return a network that the user may see, and whose agents the user, and the scopes of the user's key, may use.

    Raises as `get_runnable`.
    """
    return networks.get_runnable(user, name, scopes.usable_agents(user))


def list_agents(user: User | AnonymousUser) -> tuple[Agent, ...]:
    """Return the agents that the user and the scopes of the user's key may use: the first 200 by id."""
    return tuple(find_agents(user)[:_MOST_AGENTS])


def find_agents(user: User | AnonymousUser, *, or_visible: bool = False) -> QuerySet[Agent]:
    """Return the agents that the user, and the scopes of the user's key, may use, by id. or_visible: or see."""
    return scopes.usable_agents(user, or_visible=or_visible).select_related("provider").order_by("agent_id")


def _check_session(user: User | AnonymousUser, session_id: UUID, noun: str, needs: Right | None = None) -> Session:
    try:
        return access_session(user, session_id, needs=needs)
    except NotFound:
        raise NotFound(f"There is no such {noun}.") from None


def _uuid(text: str | UUID) -> UUID | None:
    if isinstance(text, UUID):
        return text
    try:
        return UUID(text)
    except ValueError:
        return None


def uuid_or_404(text: str | UUID, noun: str) -> UUID:
    """Return the UUID of an address. noun: for the error. Raises NotFound."""
    if found := _uuid(text):
        return found
    raise NotFound(f"There is no such {noun}.")


def _spellings(text: str) -> list[str]:
    """Return a public id as given and in its stored spelling, in which the parts are percent-encoded."""
    try:
        return [text, str(parse_key(text))]
    except Exception:  # not a public id
        return [text]
