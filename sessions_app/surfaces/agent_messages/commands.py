"""Starts, restarts and forks agent runs. Synchronous."""

import hashlib
import json
import time
from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from agents_app import selectors as agents
from agents_app.errors import IdempotencyMismatch
from agents_app.models import Agent
from agents_app.types import RunStatus
from audit_app import timeline
from audit_app.kernel.errors import AppError, NotFound, Unavailable
from sessions_app import services
from sessions_app.access import access_agent
from sessions_app.attachments import records as attachments
from sessions_app.identity.principal import Principal
from sessions_app.models import Session, Turn
from sessions_app.surfaces.agent_messages import (
    agent_runs,
    attached_files,
    message_types,
    queries,
    requests,
    run_settings,
    session_writes,
)
from sessions_app.surfaces.agent_messages.agent_runs import NAME, AgentRun
from sessions_app.surfaces.agent_messages.session_writes import UserMessage
from tools_app.storage import artifacts

_BUILT_IN = "sys:"  # prefix of the agents that every server of the protocol has
_DEFAULT = "default"
_LONGEST_WAIT_SECONDS = 0.1


def start(principal: Principal, body: Any, idempotency_key: str = "") -> AgentRun:
    """Start an agent run and send it the request's text, if there is one. Idempotent for a key.

    Raises InvalidInput, NotFound (interaction_not_found), IdempotencyMismatch, and what `receive` raises.
    """
    request = requests.read_start(body)
    agent = _agent_of(principal.user, request.interaction)
    run_settings.check(principal.user, agent, request.shown)
    thread_id = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32] if idempotency_key else ""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    if thread_id and (found := _find(principal.user, thread_id, digest)):
        return agent_runs.load(found)
    shown, mode = dict(request.shown), request.shown.get("tool_approval_mode", "")
    if mode:
        shown["tool_approval_mode"] = mode = run_settings.mode_in_force(agent, mode)
    metadata = {
        "interaction": request.interaction,
        "interactive": request.is_interactive,
        "status": "",
        "request": shown,
        "topic": request.shown.get("topic"),
        "digest": digest,
    }
    try:
        with attached_files.attached(principal.user, None, request.text, {}) as files, transaction.atomic():
            fields: dict[str, Any] = {"owner": principal.user, "title": request.title, "metadata": {NAME: metadata}}
            session = services.open_session(agent_id=agent.agent_id, thread_id=thread_id, **fields)
            if mode:
                run_settings.apply_mode(session, mode)
            if request.text:
                session_writes.send_user_message(principal, session, UserMessage(request.text, files=files.ids))
            else:
                session_writes.post_message(session, message_types.idle())
    except IntegrityError:  # a concurrent request with the same key
        if not (thread_id and (found := _find(principal.user, thread_id, digest))):
            raise
        session = found
    return agent_runs.load(session)


def restart(principal: Principal, run: AgentRun) -> AgentRun:
    """Reopen an ended run with its history. A run that is not interactive and failed is retried. Idempotent."""
    session = run.session
    if not run.is_terminal:
        return run
    failed = None if run.is_interactive else _last_failed(session)
    if failed is not None:
        # Again in the transaction, which would roll back the audit entry of a refusal.
        services.check_retry(session, failed, owner=principal.user)
    with transaction.atomic():
        status = "" if failed or run.is_interactive else "running"
        agent_runs.update_metadata(session, status=status, ended_at=None)
        if failed is not None:
            services.retry_run(session, failed, actor=principal.actor, owner=principal.user)
        session_writes.post_message(session, message_types.restarting())
        if failed is None:
            session_writes.post_message(session, message_types.idle())
    return agent_runs.load(session)


def fork(principal: Principal, run: AgentRun) -> AgentRun:
    """Return a new run with the history and files of another one, without the turns that are still open there."""
    source = run.session
    seq, ts, ordinal = _settled_position(source)
    # New messages must get a later `ts`, and events of one moment have times ahead of the clock.
    time.sleep(min(max(ts - time.time() * 1000 + 1, 0) / 1000, _LONGEST_WAIT_SECONDS))
    metadata = {**run.metadata, "interaction": run.interaction, "interactive": True, "status": "", "ended_at": None}
    metadata |= {"forked_from": run.id, "fork": {"id": run.id, "seq": seq}, "files": {}}
    with transaction.atomic():
        session = services.open_session(
            owner=principal.user, agent_id=source.agent.agent_id, title=source.title, metadata={NAME: metadata}
        )
        services.import_history(session, _history(source, before=ordinal))
        session_writes.post_message(session, message_types.idle())
    _copy_files(source, session)
    attachments.link_artifacts(session)
    return agent_runs.load(session)


def _agent_of(user: User, interaction: str) -> Agent:
    """Return the agent of that name, or the default agent for names of built-in agents. Raises NotFound."""
    try:
        return access_agent(user, interaction)
    except NotFound:
        if interaction.startswith(_BUILT_IN):
            return access_agent(user, _DEFAULT)
        raise NotFound(f"There is no agent {interaction!r}.", code="interaction_not_found") from None


def _find(user: User, thread_id: str, digest: str) -> Session | None:
    """Return the session that was started with the key. Raises IdempotencyMismatch if its request was another one."""
    rows = Session.objects.select_related("agent").filter(owner=user, channel=services.WEB_CHAT, deleted_at=None)
    found = rows.filter(key__endswith=f":{thread_id}").first()
    if found is not None and (found.metadata.get(NAME) or {}).get("digest", digest) != digest:
        raise IdempotencyMismatch
    return found


def _last_failed(session: Session) -> UUID | None:
    """Return the id of the session's last run if it failed, timed out or was cancelled."""
    last = agents.find_last_run(session.id)
    unsuccessful = (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED)
    return last.id if last is not None and last.status in unsuccessful else None


def _settled_position(session: Session) -> tuple[int, int, int]:
    """Return (`seq`, `ts`, ordinal) before the session's first open run, or its present end."""
    open_runs = agents.list_open_runs(session.id)
    head = timeline.find_head(session.id)
    if not open_runs:
        return *timeline.find_place(session.id, ts=queries.END_OF_TIME), session.next_ordinal
    first = timeline.list_events_of_run(open_runs[0].id, until=head)
    seq = (first[0].seq if first else head + 1) - 1
    return seq, first[0].ts if first else 0, open_runs[0].ordinal


def _history(session: Session, before: int) -> list[Turn]:
    turns = Turn.objects.filter(session=session, ordinal__lt=before, is_off_path=False).exclude(state="error")
    # Answers to the agent's questions are part of the history as results of its tool calls.
    turns = turns.exclude(role="user", tool_call_ids__isnull=False).order_by("ordinal", "part")
    return [turn for turn in turns if turn.content or turn.tool_calls or turn.role == "tool" or turn.is_context]


def _copy_files(source: Session, session: Session) -> None:
    agent_id = session.agent.agent_id
    for file in artifacts.list_artifacts(source.id):
        try:
            _, data = artifacts.read_artifact(source.id, file.path)
            writer = artifacts.Writer(session.id, file.run_id, agent_id, file.origins)
            artifacts.write_artifact(writer, file.path, data, media_type=file.media_type)
        except Unavailable:
            raise
        except AppError:  # the bytes are missing: the copy goes without the file
            continue
