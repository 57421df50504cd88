"""Sessions and their runs: list, read, history, bind, stop, retry, delete. Only the caller's own."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors as agents
from sessions_app import selectors, services
from sessions_app.access import access_run, access_session
from sessions_app.models import Session
from sessions_app.surfaces.rest import responses
from sessions_app.surfaces.rest.requests import BindBody, CancelBody, HistoryQuery, SessionPolicyBody
from sessions_app.surfaces.rest.views.base import KomandView, ok

_STOPPED = "Stopped by its user."


class SessionList(KomandView):
    def get(self, request: Request) -> Response:
        page, owner = self.page(), self.principal.user
        rows = selectors.list_sessions(owner, limit=page.size, offset=page.offset)
        return ok([responses.SessionOut.of(row) for row in rows], page.meta(selectors.count_sessions(owner)))


class SessionDetail(KomandView):
    def get(self, request: Request, session_id: str) -> Response:
        return ok(responses.SessionOut.of(access_session(self.principal.user, session_id)))

    def delete(self, request: Request, session_id: str) -> Response:
        services.delete_session(access_session(self.principal.user, session_id))
        return ok(None)


class SessionHistory(KomandView):
    """The turns, oldest first. Page 1 holds the newest, page 2 those before them; `maxTurns` takes the newest N."""

    def get(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id)
        page = self.query(HistoryQuery).wanted
        turns = selectors.list_turns(session, limit=page.size, offset=page.offset)
        return ok([responses.TurnOut.of(turn) for turn in turns], page.meta(selectors.count_turns(session)))


class SessionBind(KomandView):
    def post(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id)
        return ok(responses.SessionOut.of(services.bind_session(session, self.body(BindBody)["agent_id"])))


class SessionPolicy(KomandView):
    """What the session takes away from whichever agent answers it: it can only narrow what the agent may do."""

    def get(self, request: Request, session_id: str) -> Response:
        return ok(_limits(access_session(self.principal.user, session_id)))

    def put(self, request: Request, session_id: str) -> Response:
        session, asked = access_session(self.principal.user, session_id), self.body(SessionPolicyBody)
        denied = asked.get("denied_tools", ())
        return ok(_limits(services.limit_session(session, is_readonly=asked["readonly"], denied=denied)))


def _limits(session: Session) -> dict[str, Any]:
    kept = session.policy
    return responses.SessionPolicyOut.of(
        None, readonly=kept.get("readonly", False), denied_tools=kept.get("deniedTools", ())
    )


class SessionCancel(KomandView):
    """Stops what runs and waits in the session, or just `runId`. Asking again, or too late, counts 0."""

    def post(self, request: Request, session_id: str) -> Response:
        session = access_session(self.principal.user, session_id)
        run_id = self.body(CancelBody)["run_id"]
        return ok({"cancelled": services.cancel_session_runs(session, reason=_STOPPED, run_id=run_id)})


class RunDetail(KomandView):
    def get(self, request: Request, run_id: str) -> Response:
        view = access_run(self.principal.user, run_id)
        session = access_session(self.principal.user, view.conversation_id)
        return ok(responses.run(agents.get_transcript(view.id), session))


class RunRetry(KomandView):
    """Answers the message of a failed or stopped run again: 202 with the new run."""

    def post(self, request: Request, run_id: str) -> Response:
        view = access_run(self.principal.user, run_id)
        session = access_session(self.principal.user, view.conversation_id)
        again = services.retry_run(session, view.id, actor=self.principal.actor)
        return ok(responses.AcceptedOut.of(None, session_id=session.key, run_id=again), status=202)
