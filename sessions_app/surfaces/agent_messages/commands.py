"""Starts agent runs, takes ended ones up again, and makes a new one of what was said in another. Synchronous."""

import hashlib
import json
import time
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from agents_app import selectors as agents
from agents_app.errors import IdempotencyMismatch
from agents_app.models import Agent
from agents_app.types import Message, RunStatus
from audit_app import timeline
from audit_app.kernel.errors import AppError, NotFound
from sessions_app import services
from sessions_app.access import access_agent
from sessions_app.identity.principal import Principal
from sessions_app.models import Session, Turn
from sessions_app.surfaces.agent_messages import agent_runs, message_types, queries, requests, session_writes
from sessions_app.surfaces.agent_messages.agent_runs import NAME, AgentRun
from tools_app.storage import artifacts
from tools_app.types import ToolCall

_BUILT_IN = "sys:"  # before the names of agents that the protocol's own server brings along
_DEFAULT = "default"
_LONGEST_WAIT_SECONDS = 0.1


def start(principal: Principal, body: Any, idempotency_key: str = "") -> AgentRun:
    """A new agent run, at work on the request's text if it has one. Under the same key, the same run again.

    Raises InvalidInput, NotFound (interaction_not_found), IdempotencyMismatch, and what `receive` raises.
    """
    wanted = requests.read_start(body)
    agent = _agent_of(principal.user, wanted.interaction)
    thread_id = hashlib.sha256(idempotency_key.encode()).hexdigest()[:32] if idempotency_key else ""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    if thread_id and (found := _find(principal.user, thread_id, digest)):
        return agent_runs.load(found)
    kept = {
        "interaction": wanted.interaction,
        "interactive": wanted.is_interactive,
        "status": "",
        "request": dict(wanted.shown),
        "topic": wanted.shown.get("topic"),
        "digest": digest,
    }
    try:
        with transaction.atomic():
            session = services.open_session(
                owner=principal.user,
                agent_id=agent.agent_id,
                title=wanted.title,
                thread_id=thread_id,
                metadata={NAME: kept},
            )
            if wanted.text:
                session_writes.say(principal, session, wanted.text)
            else:
                session_writes.post(session, message_types.idle())
    except IntegrityError:  # the same request at the same time
        found = _find(principal.user, thread_id, digest) if thread_id else None
        if found is None:
            raise
        session = found
    return agent_runs.load(session)


def restart(principal: Principal, run: AgentRun) -> AgentRun:
    """An ended run is usable again, its history kept; one that was not interactive and failed tries its work again. A
    run that has not ended stays as it is."""
    session = run.session
    if not run.is_terminal:
        return run
    failed = _last_failed(session) if not run.is_interactive else None
    with transaction.atomic():
        agent_runs.change(session, status="" if failed or run.is_interactive else "running", ended_at=None)
        if failed is not None:
            services.retry_run(session, failed, actor=principal.actor)
        session_writes.post(session, message_types.restarting())
        if failed is None:
            session_writes.post(session, message_types.idle())
    return agent_runs.load(session)


def fork(principal: Principal, run: AgentRun) -> AgentRun:
    """A new run that knows what was said in the other one until now, and has its files. Work under way stays there."""
    source = run.session
    seq, ts, ordinal = _settled(source)
    _wait_until_after(ts)
    kept = {**run.kept, "interaction": run.interaction, "interactive": True, "status": "", "ended_at": None}
    kept |= {"forked_from": run.id, "fork": {"id": run.id, "seq": seq}, "files": {}}
    with transaction.atomic():
        session = services.open_session(
            owner=principal.user,
            agent_id=source.agent.agent_id,
            title=source.title,
            metadata={NAME: kept},
            history=_said(source, ordinal),
        )
        session_writes.post(session, message_types.idle())
    _copy_files(source, session)
    return agent_runs.load(session)


def _agent_of(user: User, interaction: str) -> Agent:
    """The agent of that name; the default one in place of those that the protocol's own server brings along."""
    try:
        return access_agent(user, interaction)
    except NotFound:
        if interaction.startswith(_BUILT_IN):
            return access_agent(user, _DEFAULT)
        raise NotFound(f"There is no agent {interaction!r}.", code="interaction_not_found") from None


def _find(user: User, thread_id: str, digest: str) -> Session | None:
    """What was started under the key before. Raises IdempotencyMismatch when that was by another request."""
    rows = Session.objects.select_related("agent").filter(owner=user, channel=services.WEB_CHAT, deleted_at=None)
    found = rows.filter(key__endswith=f":{thread_id}").first()
    if found is not None and (found.metadata.get(NAME) or {}).get("digest", digest) != digest:
        raise IdempotencyMismatch
    return found


def _last_failed(session: Session) -> Any:
    """The last run of ours, if it failed or was stopped."""
    last = agents.find_last_run(session.id)
    badly = (RunStatus.FAILED, RunStatus.TIMED_OUT, RunStatus.CANCELLED)
    return last.id if last is not None and last.status in badly else None


def _settled(session: Session) -> tuple[int, int, int]:
    """(`seq`, `ts`, ordinal) up to which nothing is under way: before the first open run, if there is one."""
    open_runs = agents.list_open_runs(session.id)
    head = timeline.find_head(session.id)
    if not open_runs:
        return *timeline.find_place(session.id, ts=queries.FOR_EVER), session.next_ordinal
    first = timeline.list_events_of_run(open_runs[0].id, until=head)
    seq = (first[0].seq if first else head + 1) - 1
    return seq, first[0].ts if first else 0, open_runs[0].ordinal


def _said(session: Session, before: int) -> list[Message]:
    turns = Turn.objects.filter(session=session, ordinal__lt=before).exclude(state="error")
    # The model knows answers to its questions as results of its calls.
    turns = turns.exclude(role="user", tool_call_ids__isnull=False).order_by("ordinal", "part")
    return [
        Message(
            turn.role,
            turn.content,
            tuple(ToolCall(call["id"], call["name"], call["arguments"]) for call in turn.tool_calls),
            turn.tool_call_id,
        )
        for turn in turns
        if turn.content or turn.tool_calls or turn.role == "tool"
    ]


def _copy_files(source: Session, session: Session) -> None:
    for file in artifacts.list_artifacts(source.id):
        try:
            _, data = artifacts.read_artifact(source.id, file.path)
            artifacts.write_artifact(
                session.id,
                file.path,
                data,
                run_id=file.run_id,
                agent_id=session.agent.agent_id,
                media_type=file.media_type,
            )
        except AppError:  # its bytes are gone: the new run does without
            continue


def _wait_until_after(ts: int) -> None:
    """The new run's own messages come after those that it begins with. Events of one moment have times ahead of it."""
    time.sleep(min(max(ts - time.time() * 1000 + 1, 0) / 1000, _LONGEST_WAIT_SECONDS))
