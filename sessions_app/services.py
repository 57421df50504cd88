"""Operations on sessions: receive, edit and regenerate, open, bind, limit, rename, delete, cancel and retry runs.

The caller has checked access (`sessions_app.access`). Each operation owns its transaction unless its docstring differs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone

from agents_app import selectors as agents
from agents_app import services as runs
from agents_app.configuration import agent_access
from agents_app.configuration.agent_versions import DRAFT
from agents_app.models import Agent, Run
from agents_app.types import RunOptions
from audit_app import services as audit
from audit_app.kernel.errors import Conflict, InvalidInput, NotFound
from audit_app.kernel.ids import new_id
from sessions_app import events
from sessions_app.conversation import branches, message_index, notifications, sessions
from sessions_app.conversation.answer_history import answer_history
from sessions_app.conversation.branches import select_branch
from sessions_app.conversation.compaction_request import compact_session
from sessions_app.conversation.network_start import check_agents
from sessions_app.conversation.new_message import LONGEST_TEXT, Accepted, NewMessage, ReceiveOptions
from sessions_app.conversation.pins import pin_turn
from sessions_app.conversation.receive_message import receive
from sessions_app.conversation.removed_turns import remove_turn
from sessions_app.conversation.run_options import TRIES_DRAFT
from sessions_app.conversation.session_key import SessionKey
from sessions_app.conversation.sessions import ROUTED, append_history, event_about, import_history, lock, open_new
from sessions_app.conversation.workstreams import ask_workstream, list_session_workstreams
from sessions_app.identity.actor_names import display_name
from sessions_app.models import Session
from tools_app.types.authors import PERSON

__all__ = [
    "LONGEST_TEXT",
    "WEB_CHAT",
    "Accepted",
    "NewMessage",
    "ReceiveOptions",
    "answer_history",
    "append_history",
    "ask_workstream",
    "bind_session",
    "cancel_session_runs",
    "compact_session",
    "delete_session",
    "edit_message",
    "import_history",
    "limit_session",
    "list_session_workstreams",
    "open_draft_session",
    "open_session",
    "pin_turn",
    "receive",
    "remove_turn",
    "regenerate_answer",
    "rename_session",
    "retry_run",
    "select_branch",
    "set_surface_data",
]

WEB_CHAT = "WebChat"
LONGEST_TITLE = 255


def open_session(
    *,
    owner: User,
    agent_id: str = "default",
    agent: Agent | None = None,
    title: str = "",
    channel: str = WEB_CHAT,
    thread_id: str = "",
    metadata: Mapping[str, Any] | None = None,
    is_temporary: bool = False,
) -> Session:
    """Create a session of the user. The user may have others on the same channel.

    agent: the agent of that id, if an access gate has just returned it to the caller.
    thread_id: the last part of the session's public id; empty: a new one.
    metadata: data of the surface that opens the session, under the surface's name.
    is_temporary: retention deletes it some time after its last message.

    Raises NotFound if there is no such agent for the owner, IntegrityError if the thread id is taken.
    """
    key = SessionKey(channel, "default", str(owner.pk), thread_id or str(new_id()))
    bound = agent or agent_access.get_usable_agent(owner, agent_id)
    with transaction.atomic():
        session, created = open_new(
            key, owner, display_name(owner), bound, title, metadata=metadata, is_temporary=is_temporary
        )
        audit.emit(created)
    return session


def open_draft_session(*, owner: User, agent_id: str, thread_id: str) -> Session:
    """Open a session whose runs use the draft of the agent while there is one. Idempotent under the thread id.

    Raises NotFound (unknown_agent, unknown_version) and what `agent_access.check_version` raises.
    """
    agent = agent_access.get_usable_agent(owner, agent_id)
    agent_access.check_version(owner, agent, DRAFT)
    try:
        with transaction.atomic():
            metadata = {TRIES_DRAFT: str(agent.pk)}
            title = f"Draft of {agent.name}"[:LONGEST_TITLE]
            return open_session(owner=owner, agent_id=agent_id, title=title, thread_id=thread_id, metadata=metadata)
    except IntegrityError:
        key = SessionKey(WEB_CHAT, "default", str(owner.pk), thread_id)
        return Session.objects.select_related("agent").get(key=str(key))


def bind_session(session: Session, agent: Agent, *, is_routed: bool = False) -> Session:
    """Route all later messages of the session to another agent. Idempotent. Return the session as it is stored now.

    is_routed: a route of the channel account says so; the session leaves the agent with the route.
    """
    with transaction.atomic():
        session = lock(session.id)
        if is_routed != (ROUTED in session.metadata):
            others = {name: value for name, value in session.metadata.items() if name != ROUTED}
            session.metadata = {**others, ROUTED: True} if is_routed else others
            Session.objects.filter(pk=session.id).update(metadata=session.metadata)
        if session.agent_id != agent.pk:
            payload: events.SessionBound = {"agent_id": agent.agent_id, "previous": session.agent.agent_id}
            Session.objects.filter(pk=session.id).update(agent=agent)
            session.agent = agent
            audit.emit([event_about(session, events.SESSION_BOUND, payload)])
    return session


def limit_session(session: Session, *, is_readonly: bool, denied: Sequence[str]) -> Session:
    """Restrict the later runs of the session, whichever agent answers. The stored restrictions are replaced.

    A session cannot allow what the agent's own policy denies.

    is_readonly: deny all calls that change something.
    denied: validated patterns of tool calls to deny.
    """
    return _change_policy(session, {"readonly": is_readonly, "deniedTools": list(denied)})


def supervise_session(session: Session, *, is_supervised: bool) -> Session:
    """Let an agent with full autonomy ask as a supervised one in the session's later runs, or no longer."""
    return _change_policy(session, {"supervised": is_supervised})


def _change_policy(session: Session, changes: Mapping[str, Any]) -> Session:
    with transaction.atomic():
        session.policy = {**lock(session.id).policy, **changes}
        Session.objects.filter(pk=session.id).update(policy=session.policy)
        audit.record(
            "SessionLimited",
            session_id=session.id,
            session_key=session.key,
            agent_id=session.agent.agent_id,
            details=session.policy,
        )
    return session


def set_surface_data(session: Session, surface: str, data: Mapping[str, Any]) -> None:
    """Replace the data of a surface in the session's metadata, which is under the surface's name."""
    with transaction.atomic():
        session.metadata = {**lock(session.id).metadata, surface: dict(data)}
        Session.objects.filter(pk=session.id).update(metadata=session.metadata)


def rename_session(session: Session, title: str) -> None:
    """Set the title of the session. Raises InvalidInput (title_length) if it is empty or too long."""
    title = title.strip()
    if not 1 <= len(title) <= LONGEST_TITLE:
        raise InvalidInput(f"A title must have 1 to {LONGEST_TITLE} characters.", code="title_length")
    with transaction.atomic():
        Session.objects.filter(pk=session.id).update(title=title)
        message_index.put_title(session, title)
        audit.emit([event_about(session, events.SESSION_RENAMED, {"title": title})])
        notifications.announce_title(session.owner_id, session.id, title)


def delete_session(session: Session) -> None:
    """Cancel the open runs of the session and hide it from the owner. Operators still see it; the key becomes free.

    Idempotent. Each run is cancelled in a transaction of its own, before the session is hidden.
    """
    cancel_session_runs(session, reason="The session was deleted.")
    freed = SessionKey(session.channel, session.account_id, session.sender_id, f"deleted-{session.id}")
    with transaction.atomic():
        Session.objects.filter(pk=session.id, deleted_at=None).update(deleted_at=timezone.now(), key=str(freed))
        audit.record("SessionDeleted", session_id=session.id, session_key=session.key, agent_id=session.agent.agent_id)


def cancel_session_runs(session: Session, *, reason: str, run_id: UUID | None = None) -> int:
    """Cancel the open runs of the session and its child runs on their own, or the given one of either. Idempotent.

    reason: shown to users. Each run is cancelled in a transaction of its own.
    Return the number of runs that were open: 0 if `run_id` is not an open run of the session.
    """
    if run_id is not None:
        is_of_session = Run.objects.filter(pk=run_id, conversation_id=session.id).exists()
        return int(is_of_session and runs.cancel_run(run_id, reason=reason))
    # From the last to the first: cancelling the first would start the second.
    count = sum(runs.cancel_run(run.id, reason=reason) for run in reversed(agents.list_open_runs(session.id)))
    return count + runs.cancel_on_their_own(session.id, reason=reason)


def retry_run(session: Session, run_id: UUID, *, actor: str, owner: User | None = None) -> UUID:
    """Retry the message of a failed or cancelled run with a new run. Return its id, the same while that run is open.

    actor: who retries it, for the audit log.
    owner: as for `check_retry`. Raises what that raises, and Conflict (not_retryable) if the run is open or completed.
    """
    check_retry(session, run_id, owner=owner)
    return runs.retry_run(run_id, actor=actor)


def check_retry(session: Session, run_id: UUID, *, owner: User | None = None) -> None:
    """Check that a run of the session may be tried again. Call it outside of a transaction, for its audit entries.

    owner: the session's owner as the request's key limits them, if one does.
    Raises NotFound if the run is not in this session, Conflict (other_branch) if the active branch leaves it out,
    Forbidden (agent_not_shared, audited) if the session's owner may no longer use the run's agent, UnusableFile for one
    of its network.
    """
    run = Run.objects.select_related("agent").filter(pk=run_id, conversation_id=session.id).first()
    if run is None:
        raise NotFound("There is no such run in this session.")
    if branches.is_off_path(session, run_id):
        raise Conflict("The message is in another branch. Select that branch, then retry it.", code="other_branch")
    sessions.check_owner(session, run.agent)
    if user := owner or session.owner:
        check_agents(user, RunOptions.from_dict(run.options))


def edit_message(
    session: Session, run_id: UUID, text: str, *, owner: User, message_id: str = "", idempotency_key: str = ""
) -> Accepted:
    """Send another text in place of the message of a run, with the same files and options: this begins a branch.

    The turns from that message on stay stored, in the branch before. Idempotent as `receive`, and raises what it
    raises: RunBusy while a run of the session is open. Raises NotFound if the run is not in this session, Conflict
    (channel_message, no_message, too_many_branches), UnusableFile if the owner may not use an agent of its network now.
    """
    replaced = replace(branches.find_replacement(session, run_id, "edited"), author=PERSON)
    return _send_again(session, replaced, text, owner, message_id, idempotency_key)


def regenerate_answer(
    session: Session, run_id: UUID | None, *, owner: User, message_id: str = "", idempotency_key: str = ""
) -> Accepted:
    """Replace a run by the same message, for another answer. Otherwise as `edit_message`.

    run_id: None for the last run of the active branch.
    """
    replaced = branches.find_replacement(session, run_id, "regenerated")
    return _send_again(session, replaced, replaced.text, owner, message_id, idempotency_key)


def _send_again(
    session: Session, replaced: branches.Replacement, text: str, owner: User, message_id: str, idempotency_key: str
) -> Accepted:
    check_agents(owner, replaced.options)
    return receive(
        NewMessage.into(session, text, message_id=message_id, author=replaced.author),
        owner=owner,
        session=session,
        idempotency_key=idempotency_key,
        options=ReceiveOptions(
            busy="reject",
            run=replaced.options,
            longest_text=max(LONGEST_TEXT, len(replaced.text)),
            denied_tools=replaced.denied_tools,
            replaces=replaced,
        ),
    )
