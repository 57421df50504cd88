"""Stores a request: as a message, or as the answers and outputs that a run of the thread waits for. Synchronous.

A thread is a session of its user with one agent: one that the thread's name has opened, or any whose id the name is. A
request with the id of an earlier run shows that run again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from agents_app import selectors as agents
from agents_app import services as runs
from audit_app import timeline
from audit_app.kernel.errors import Conflict, Forbidden, InvalidInput, NotFound
from sessions_app import feedback, selectors, services
from sessions_app.access import access_agent, access_approval, access_run, access_session
from sessions_app.approvals import decisions, permissions
from sessions_app.attachments import uploads
from sessions_app.conversation.new_message import QuestionClosed
from sessions_app.events import MESSAGE_RECEIVED
from sessions_app.identity.principal import Principal
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.live_view.viewer import cursor_now
from sessions_app.models import Feedback, Session
from sessions_app.services import NewMessage, ReceiveOptions
from sessions_app.surfaces.ag_ui import interrupts
from sessions_app.surfaces.ag_ui.projection import RunEvents
from sessions_app.surfaces.ag_ui.requests import LONGEST_TEXT, NAME, AnswerRating, RunRequest, read_request
from sessions_app.surfaces.base import client_calls, client_sessions
from sessions_app.surfaces.base.message_files import digest_of, files_of
from tools_app import selectors as tools
from tools_app.events import CALLS_RETURNED
from tools_app.services import AlreadyDecided
from tools_app.types import ExecutionView


class Refused(Conflict):
    """The state of the thread does not take this request. It is answered with RUN_ERROR."""


@dataclass(frozen=True)
class AcceptedRun:
    """A request that is stored.

    cursor: where to watch the session from.
    projection: as it is there.
    """

    session_id: UUID
    run_id: UUID
    cursor: str
    projection: RunEvents


@dataclass(frozen=True)
class ShownThread:
    """A thread that is shown as it is.

    session_id: None for a thread without a message.
    run: the open one, if any.
    """

    session_id: UUID | None
    run: AcceptedRun | None = None


@dataclass(frozen=True)
class RatedAnswer:
    """An answer whose rating is stored, or None if it was taken back.

    is_commented: the request had a comment.
    """

    session_id: UUID
    run_id: UUID
    rating: Feedback | None
    is_commented: bool


Accepted = AcceptedRun | ShownThread | RatedAnswer | Refused


def accept(principal: Principal, agent_id: str, read_body: Callable[[], Any]) -> tuple[RunRequest, Accepted]:
    """Store a request. Raises NotFound for an unknown agent, InvalidInput, and what `services.receive` raises."""
    agent = access_agent(principal.user, agent_id)
    request = read_request(read_body())
    client_calls.check_names(request.options.client_tools or (), agent.agent_id)
    try:
        return request, _Thread(principal, agent.agent_id, request).accept()
    except Refused as refusal:
        return request, refusal


class _Thread:
    """The thread of a request."""

    def __init__(self, principal: Principal, agent_id: str, request: RunRequest) -> None:
        self._principal, self._user = principal, principal.user
        self._agent_id, self._request = agent_id, request
        self._key = client_sessions.thread_id_of(NAME, agent_id, request.thread_id)
        self._may_decide = bool(principal.can_write and permissions.allowed_decisions(self._user, self._user.pk))

    def accept(self) -> AcceptedRun | ShownThread | RatedAnswer:
        """Store the request, or find what it shows. Raises Refused."""
        request = self._request
        session = self._find_session()
        if request.rating:
            return self._rate(session, request.rating)
        if request.wants_thread:
            return self._show(session)
        if session and (run_id := self._find_run(session)):
            return self._follow(session, run_id)
        if session and request.replaces:
            return self._replace(session, request.replaces)
        if session and request.resume:
            return self._resume(session)
        if request.resume:
            raise _unusable(is_known=False)
        if session and request.outputs and (accepted := self._continue(session)):
            return accepted
        if not request.new:
            raise InvalidInput("The last message must be of the user, or answer calls that wait.", code="no_message")
        waiting = agents.find_open_run(session.id) if session else None
        if session and waiting:
            self._check_nothing_asked(session, waiting.id)
            runs.leave_client_calls(waiting.id)
        return self._send(session, waiting.id if waiting else None)

    def _find_session(self) -> Session | None:
        """Return the session that the thread's name has opened, or that has it as its id. Raises Refused."""
        if found := client_sessions.find_session(self._user, self._key):
            return access_session(self._user, found.id)
        try:
            own_id = _own_id(self._request.thread_id)
            session = access_session(self._user, own_id) if own_id else None
        except NotFound:
            return None
        if session and session.agent.agent_id != self._agent_id:
            raise Refused(f"The agent {session.agent.agent_id!r} answers in this thread.", code="other_agent")
        return session

    def _find_run(self, session: Session) -> UUID | None:
        """Return the run that the request's id has begun, or that has it as its id."""
        if found := selectors.find_received_run(self._user, f"{self._key}:{self._request.run_id}"):
            return found
        try:
            own_id = _own_id(self._request.run_id)
            run = access_run(self._user, own_id) if own_id else None
        except NotFound:
            return None
        return run.id if run and run.conversation_id == session.id and not run.parent_id else None

    def _send(self, found: Session | None, open_run_id: UUID | None) -> AcceptedRun:
        """Store the new messages of the user as one. open_run_id: the run that they may join."""
        request, history = self._request, self._request.history
        session = found or client_sessions.open_session(self._user, self._agent_id, self._key, history, {NAME: {}})
        cursor = cursor_now(session.id)
        new = self._unsent(session) if found and len(request.new) > 1 else request.new
        messages = [message for _, message in new]
        files = files_of(messages)
        with uploads.unsent_discarded(client_sessions.upload_parts(self._user, files)) as stored:
            text = "\n\n".join(filter(None, (message.content for message in messages)))
            message = NewMessage.into(
                session, text, note={NAME: new[-1][0]}, attachments=stored, attachments_digest=digest_of(files)
            )
            accepted = services.receive(
                message,
                owner=self._user,
                session=session,
                idempotency_key=f"{self._key}:{request.run_id}",
                options=ReceiveOptions(
                    busy=session.agent.policy_for(request.busy),
                    run=request.options,
                    longest_text=LONGEST_TEXT,
                    may_answer=False,
                ),
            )
        if accepted.is_duplicate:
            return self._follow(session, accepted.run_id)
        if accepted.run_id == open_run_id:
            return self._show_run(session, accepted.run_id)
        return AcceptedRun(session.id, accepted.run_id, cursor, self._projection(accepted.run_id))

    def _unsent(self, session: Session) -> Any:
        """Return the new messages without those that the thread has: its last run may have ended without an answer."""
        new = self._request.new
        last = timeline.find_last(session.id, MESSAGE_RECEIVED.name, until=timeline.find_head(session.id))
        sent = (last.payload.get("note") or {}).get(NAME) if last else None
        known = [place for place, (message_id, _) in enumerate(new[:-1]) if message_id == sent]
        return new[known[-1] + 1 :] if known else new

    def _replace(self, session: Session, run_id: UUID) -> AcceptedRun:
        """Begin a branch with another text of a message, or with another answer to it."""
        text = "\n\n".join(message.content for _, message in self._request.new)
        cursor, key = cursor_now(session.id), f"{self._key}:{self._request.run_id}"
        if text:
            accepted = services.edit_message(session, run_id, text, owner=self._user, idempotency_key=key)
        else:
            accepted = services.regenerate_answer(session, run_id, owner=self._user, idempotency_key=key)
        return AcceptedRun(session.id, accepted.run_id, cursor, self._projection(accepted.run_id))

    def _rate(self, session: Session | None, given: AnswerRating) -> RatedAnswer:
        if session is None or access_run(self._user, given.run_id).conversation_id != session.id:
            raise NotFound("There is no such answer in this thread.")
        stored = feedback.rate_answer(self._user, given.run_id, rating=given.rating, comment=given.comment)
        return RatedAnswer(session.id, given.run_id, stored, given.comment is not None)

    def _show(self, session: Session | None) -> ShownThread:
        if session and self._request.branch is not None:
            services.select_branch(session, self._request.branch)
        is_open = session is not None and self._request.before is None
        waiting = agents.find_open_run(session.id) if session and is_open else None
        if session is None or waiting is None:
            return ShownThread(session.id if session else None)
        return ShownThread(session.id, self._show_run(session, waiting.id))

    def _show_run(self, session: Session, run_id: UUID) -> AcceptedRun:
        """Return an open run from now on."""
        events = _events_of(session, run_id)
        projection = self._projection(run_id)
        projection.skip(events)
        return AcceptedRun(session.id, run_id, str(events[-1].seq) if events else "", projection)

    def _follow(self, session: Session, run_id: UUID) -> AcceptedRun:
        first = timeline.find_first_of_run(run_id)
        if first is None:
            raise Refused("The events of this run are not kept any more.", code="run_expired")
        return AcceptedRun(session.id, run_id, str(first.seq - 1), self._projection(run_id))

    def _continue(self, session: Session) -> AcceptedRun | None:
        """Store the outputs of the client's tools; None if there is no call for any of them."""
        calls = client_calls.find(self._user, self._request.outputs, self._agent_id, "messages")
        if calls is None or calls.session_id != session.id:
            return None
        runs.answer_client_calls(calls.run_id, calls.outputs, options=self._request.options)
        return self._behind(session, calls.run_id, {str(execution_id) for execution_id in calls.outputs})

    def _resume(self, session: Session) -> AcceptedRun:
        """Store the answers to interrupts, once all are checked. Those that were answered before stay as they are."""
        resume = self._request.resume
        root_id = _root_of(session, next(iter(resume)))
        asked = self._replayed(session, root_id, may_decide=True)
        for ask_id in resume:
            if ask_id not in asked.asks and not asked.answered.get(ask_id):
                raise _unusable(is_known=ask_id in asked.answered)
        runs_asked = {asked.asks[ask_id].get("subagentRunId") for ask_id in resume if ask_id in asked.asks}
        for ask_id, ask in asked.asks.items():
            if ask.get("subagentRunId") in runs_asked and ask_id not in resume:
                raise Refused("The resume must answer all interrupts of the run.", code="missing_interrupt")
        given = [(asked.asks[ask_id], payload) for ask_id, payload in resume.items() if ask_id in asked.asks]
        for answer in [self._checked(ask, payload) for ask, payload in given]:
            self._answer(session, *answer)
        if self._request.outputs:
            self._continue(session)
        return self._behind(session, root_id, set(resume))

    def _checked(self, ask: Any, payload: Any) -> tuple[UUID, str, str | None]:
        """Return the id of a request, its answer, and the note of a decision: None for a question."""
        try:
            if ask["reason"] == "input_required":
                return UUID(ask["id"]), interrupts.answer_of(payload), None
            decision, note = interrupts.decision_of(payload)
            access_approval(self._user, ask["id"], decision=decision)
            return UUID(ask["id"]), decision, note
        except (InvalidInput, Forbidden) as error:
            raise Refused(error.message, code=error.code) from None

    def _answer(self, session: Session, ask_id: UUID, answer: str, note: str | None) -> None:
        try:
            if note is None:
                message, options = (
                    NewMessage.into(session, answer),
                    ReceiveOptions(answers=ask_id, longest_text=LONGEST_TEXT),
                )
                services.receive(message, owner=self._user, session=session, options=options)
            else:
                actor, fresh = self._principal.actor, self._principal.has_fresh_login
                decisions.decide(ask_id, decision=answer, actor=actor, has_fresh_login=fresh, note=note)
        except (QuestionClosed, AlreadyDecided):
            return  # meanwhile, by another request
        except (InvalidInput, Forbidden, Conflict) as error:
            raise Refused(error.message, code=error.code) from None

    def _check_nothing_asked(self, session: Session, run_id: UUID) -> None:
        if self._replayed(session, run_id, may_decide=self._may_decide).asks:
            raise Refused("The thread has interrupts: answer them with `resume` first.", code="interrupts_open")

    def _replayed(self, session: Session, run_id: UUID, *, may_decide: bool) -> RunEvents:
        projection = RunEvents(run_id, self._request, may_decide=may_decide)
        projection.skip(_events_of(session, run_id))
        return projection

    def _behind(self, session: Session, run_id: UUID, named: set[str]) -> AcceptedRun:
        """Return a run from behind the event that has asked for what the request brings."""
        events = _events_of(session, run_id)
        place = max(place for place, event in enumerate(events) if not named.isdisjoint(_named(event)))
        projection = self._projection(run_id)
        projection.skip(events[: place + 1])
        return AcceptedRun(session.id, run_id, str(events[place].seq), projection)

    def _projection(self, run_id: UUID) -> RunEvents:
        return RunEvents(run_id, self._request, may_decide=self._may_decide)


def load_calls(run_id: UUID, execution_ids: Collection[str]) -> list[ExecutionView]:
    """Return the calls that the client has to make, in order."""
    return [call for call in tools.list_executions(run_id) if str(call.id) in execution_ids]


def _own_id(name: str) -> UUID | None:
    """Return an id that this server may have made; None for other names, which cost no statement."""
    try:
        found = UUID(name)
    except ValueError:
        return None
    return found if found.version == 7 else None


def _unusable(*, is_known: bool) -> Refused:
    if is_known:
        return Refused("This interrupt has expired, or was withdrawn.", code="interrupt_expired")
    return Refused("The thread has no such interrupt.", code="unknown_interrupt")


def _root_of(session: Session, ask_id: str) -> UUID:
    """Return the root of the run that has asked for a decision or an answer. Raises Refused."""
    try:
        asked_id = UUID(ask_id)
        closed = tools.find_closed_question(asked_id)
        asked = tools.find_question(session.id, asked_id) or (closed[0] if closed else tools.get_approval(asked_id))
    except (ValueError, NotFound):
        asked = None
    if asked is None or asked.session_id != session.id:
        raise _unusable(is_known=False)
    return selectors.root_of(asked.run_id)


def _events_of(session: Session, run_id: UUID) -> list[SessionEvent]:
    """Return the stored events of a run and its workstreams."""
    of_tree, head = [run_id, *agents.list_descendant_ids(run_id)], timeline.find_head(session.id)
    return [SessionEvent.of(event) for event in timeline.list_events_of_runs(of_tree, until=head)]


def _named(event: SessionEvent) -> set[str]:
    """Return the ids of what an event asks of the client."""
    if event.type == CALLS_RETURNED.name:
        return set(CALLS_RETURNED.payload(event)["execution_ids"])
    interrupt = interrupts.interrupt_of(event)
    return {interrupt["id"]} if interrupt else set()
