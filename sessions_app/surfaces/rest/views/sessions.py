"""Sessions and their branches: list, read, history, bind, restrict, cancel, delete.

A session of others, such as that of a channel, takes the right to see or to change it.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import services as runs
from sessions_app import selectors, services
from sessions_app.access import access_agent, access_session, uuid_or_404
from sessions_app.conversation import branches, message_search
from sessions_app.identity import rate_limits
from sessions_app.models import Attachment, Checkpoint, Session, Turn
from sessions_app.rights import CHANGE_SESSIONS, VIEW_SESSIONS
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import sessions as objects
from sessions_app.surfaces.rest.objects.messages import AcceptedOut, TurnOut
from sessions_app.surfaces.rest.operations import CANCELLED, paged
from sessions_app.surfaces.rest.views.base import RestView, ok

_STOPPED, _STOPPED_BY_OPERATOR = "Stopped by its user.", "Stopped by an operator."


class SessionList(RestView):
    @paged("List or search your sessions", objects.FoundSessionOut, objects.SessionQuery)
    def get(self, request: Request) -> Response:
        page, words, owner = self.page(), self.query()["query"].strip(), self.principal.user
        if words:
            matches = message_search.search_sessions(owner, words, limit=message_search.MOST_SESSIONS)
            shown = matches[page.offset : page.offset + page.size]
            return ok([_found(match) for match in shown], page.meta(len(matches)))
        rows = selectors.list_sessions(owner, limit=page.size, offset=page.offset)
        return ok([objects.SessionOut.of(row) for row in rows], page.meta(selectors.count_sessions(owner)))


def _found(match: message_search.FoundSession) -> dict[str, Any]:
    return objects.FoundSessionOut.of(match.session, snippet=match.excerpt)


class SessionDetail(RestView):
    @Operation("Read a session", objects.SessionOut)
    def get(self, request: Request, session_id: str) -> Response:
        return ok(objects.SessionOut.of(access_session(self.principal.user, session_id, needs=VIEW_SESSIONS)))

    @Operation("Delete a session")
    def delete(self, request: Request, session_id: str) -> Response:
        services.delete_session(access_session(self.principal.user, session_id))
        return ok(None)


class SessionHistory(RestView):
    """The turns, the oldest first. Page 1 has the newest, page 2 those before; `maxTurns` returns the newest N.

    A run that failed before its first word has no turn here unless `failed` is set; its own resource has the error.
    """

    @paged("Read the turns of a session", TurnOut, objects.HistoryQuery)
    def get(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id, needs=VIEW_SESSIONS)
        page, query = self.page(), self.query()
        failed, branch = query["failed"], query["branch"]
        among = selectors.ON_PATH if branch is None else branches.turns_of(session.id, branch)
        turns = selectors.list_turns(session, limit=page.size, offset=page.offset, failed=failed, among=among)
        count = selectors.count_turns(session, failed=failed, among=among)
        files = selectors.attachments_of(turns)
        checkpoint = selectors.find_checkpoint(session)
        return ok([_turn(turn, files, checkpoint) for turn in turns], page.meta(count))


def _turn(turn: Turn, files: Mapping[UUID, Sequence[Attachment]], checkpoint: Checkpoint | None) -> dict[str, Any]:
    covered = checkpoint is not None and turn.ordinal <= checkpoint.ordinal
    return TurnOut.of(turn, files.get(turn.pk, ()), is_summarised=covered and not turn.is_pinned)


class SessionBranches(RestView):
    """The branches of the session; and the choice of the one that later messages continue."""

    @paged("List the branches of a session", objects.BranchOut)
    def get(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id, needs=VIEW_SESSIONS)
        return self.page_of(selectors.list_branches(session), objects.BranchOut.of)

    @paged("Select the active branch", objects.BranchOut, None, body=objects.BranchBody, errors=[409])
    def post(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id)
        services.select_branch(session, self.body()["branch"])
        session.refresh_from_db(fields=["active_branch"])
        return self.page_of(selectors.list_branches(session), objects.BranchOut.of)


class SessionCompact(RestView):
    """Have the agent summarise the earlier messages, after the open runs of the session."""

    @Operation("Summarise the earlier messages of a session", AcceptedOut, status=202, errors=[409])
    def post(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id)
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        run_id = services.compact_session(session, actor=self.principal.actor)
        return ok(AcceptedOut.of(None, session_id=session.key, run_id=run_id), status=202)


class SessionContext(RestView):
    """The use of the model's context by the session, in estimated tokens, and the summary of older messages."""

    @Operation("Read the use of a session's context", objects.ContextOut)
    def get(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id, needs=VIEW_SESSIONS)
        usage = runs.context_usage(session.agent, session.id, session.next_ordinal)
        return ok(objects.ContextOut.of(usage, checkpoint=selectors.find_checkpoint(session)))


class SessionPin(RestView):
    """Pin a message, so that it is sent with every request however old it is; or unpin it."""

    @Operation("Pin a message", TurnOut, errors=[409])
    def put(self, request: Request, session_id: str, turn_id: str) -> Response:
        return self._set(session_id, turn_id, is_pinned=True)

    @Operation("Unpin a message", TurnOut)
    def delete(self, request: Request, session_id: str, turn_id: str) -> Response:
        return self._set(session_id, turn_id, is_pinned=False)

    def _set(self, session_id: str, turn_id: str, *, is_pinned: bool) -> Response:
        session = access_session(self.principal.user, session_id)
        found_id = uuid_or_404(turn_id, "message")
        turn = services.pin_turn(session, found_id, is_pinned=is_pinned, actor=self.principal.actor)
        return ok(_turn(turn, selectors.attachments_of([turn]), selectors.find_checkpoint(session)))


class SessionBind(RestView):
    @Operation("Bind a session to an agent", objects.SessionOut, body=objects.BindBody)
    def post(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id, needs=CHANGE_SESSIONS)
        agent = access_agent(self.principal.user, self.body()["agent_id"])
        return ok(objects.SessionOut.of(services.bind_session(session, agent)))


class SessionPolicy(RestView):
    """The restrictions of the session, whichever agent answers. They cannot allow what the agent's policy denies."""

    @Operation("Read the restrictions of a session", objects.SessionPolicyOut)
    def get(self, request: Request, session_id: str) -> Response:
        return ok(_restrictions(access_session(self.principal.user, session_id, needs=VIEW_SESSIONS)))

    @Operation("Restrict a session", objects.SessionPolicyOut, body=objects.SessionPolicyBody)
    def put(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id, needs=CHANGE_SESSIONS)
        fields = self.body()
        denied = fields.get("denied_tools", ())
        return ok(_restrictions(services.limit_session(session, is_readonly=fields["readonly"], denied=denied)))


def _restrictions(session: Session) -> dict[str, Any]:
    policy = session.policy
    return objects.SessionPolicyOut.of(
        None, readonly=policy.get("readonly", False), denied_tools=policy.get("deniedTools", ())
    )


class SessionCancel(RestView):
    """Cancel the open runs of the session, or only `runId`. Returns the number of runs that were open."""

    @Operation("Stop runs", CANCELLED, body=objects.CancelBody)
    def post(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id, needs=CHANGE_SESSIONS)
        reason = _STOPPED if session.owner_id == self.principal.user.pk else _STOPPED_BY_OPERATOR
        run_id = self.body()["run_id"]
        return ok({"cancelled": services.cancel_session_runs(session, reason=reason, run_id=run_id)})
