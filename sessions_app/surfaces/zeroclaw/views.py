"""Views of the gateway and of sessions, and the answer to calls that this server does not have."""

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from rest_framework.exceptions import APIException
from rest_framework.request import Request
from rest_framework.response import Response

from agents_app import selectors as agents
from sessions_app import services
from sessions_app.access import access_agent
from sessions_app.models import Session
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.base.openapi.schemas import BOOLEAN, OBJECT, list_of, one_of, record, ref
from sessions_app.surfaces.base.timestamps import iso
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.zeroclaw import commands, observed_events, openapi, queries
from sessions_app.surfaces.zeroclaw.requests import AgentQuery, RenameBody
from sessions_app.surfaces.zeroclaw.responses import GatewayMessageOut, GatewaySessionOut, GatewayStateOut

_SESSIONS = record({"sessions": list_of(ref("GatewaySession"))})


class NotServed(APIException):
    """A call of the protocol that this server does not have."""

    status_code = 501
    default_code = "not_served"
    default_detail = (
        "Komand does not serve this call of ZeroClaw's gateway. docs/zeroclaw.md lists those that it serves."
    )


class Unserved(PlainView):
    """The paths of the protocol that no other view has: 501 for every method."""

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        raise NotServed


class Health(PlainView):
    is_public = True

    @Operation("Check that the gateway answers", openapi.HEALTH, access="open")
    def get(self, request: Request) -> Response:
        return Response({"status": "ok", "paired": True, "require_pairing": True, "runtime": None})


class RuntimeHealth(PlainView):
    @Operation("Read the state of the gateway's process", openapi.RUNTIME)
    def get(self, request: Request) -> Response:
        return Response({"health": _snapshot()})


class Status(PlainView):
    @Operation("Read the state of the gateway", openapi.STATUS, query=AgentQuery, errors=[404])
    def get(self, request: Request) -> Response:
        agent = access_agent(self.principal.user, self.query()["agent"] or commands.DEFAULT_AGENT)
        snapshot = _snapshot()
        state = {
            "version": settings.KOMAND_VERSION,
            "model": agent.agent_id,  # which models it uses is for those who may see its configuration
            "uptime_seconds": snapshot["uptime_seconds"],
            "daemon_started_at": iso(queries.STARTED_AT),
            "gateway_port": int(request.get_port() or 0),
            "locale": settings.LANGUAGE_CODE,
            "memory_backend": "komand",
            "paired": True,
            "channels": {},
            "health": snapshot,
            "agent_alias": agent.agent_id,
            "check_updates": False,
            "allow_self_upgrade": False,
        }
        return Response(state)


class SessionList(PlainView):
    @Operation("List your sessions", _SESSIONS)
    def get(self, request: Request) -> Response:
        return Response({"sessions": [GatewaySessionOut.of(row) for row in queries.list_sessions(self.principal.user)]})


class GatewaySessionList(PlainView):
    @Operation("List the sessions of gateway clients", _SESSIONS)
    def get(self, request: Request) -> Response:
        rows = filter(queries.is_of_gateway, queries.list_sessions(self.principal.user))
        return Response({"sessions": [GatewaySessionOut.of(row) for row in rows]})


class _SessionView(PlainView):
    def session(self, session_id: str) -> Session:
        """Return the caller's session of that name. Raises NotFound."""
        return queries.get_session(self.principal.user, session_id)


class SessionDetail(_SessionView):
    @Operation("Rename a session", record({"renamed": BOOLEAN}), body=RenameBody)
    def put(self, request: Request, session_id: str) -> Response:
        services.rename_session(self.session(session_id), self.body()["name"])
        return Response({"renamed": True})

    @Operation("Stop the runs of a session, and delete it", record({"deleted": BOOLEAN}))
    def delete(self, request: Request, session_id: str) -> Response:
        services.delete_session(self.session(session_id))
        return Response({"deleted": True})


class SessionMessages(_SessionView):
    @Operation("List the messages of a session", record({"messages": list_of(ref("GatewayMessage"))}))
    def get(self, request: Request, session_id: str) -> Response:
        """Return the newest 500."""
        turns = queries.list_messages(self.session(session_id))
        return Response({"messages": [GatewayMessageOut.of(turn) for turn in turns]})


class SessionState(_SessionView):
    @Operation("Read whether a session is busy", GatewayStateOut)
    def get(self, request: Request, session_id: str) -> Response:
        session = self.session(session_id)
        run = queries.find_open_run(session)
        state = queries.state_of(run, agents.find_last_run(session.id))
        return Response(GatewayStateOut.of(run, session_id=session_id, state=state))


class SessionAbort(_SessionView):
    @Operation("Stop the runs of a session", record({"status": one_of(("aborted", "no_active_response"))}))
    def post(self, request: Request, session_id: str) -> Response:
        is_stopped = commands.stop(self.session(session_id))
        return Response({"status": "aborted" if is_stopped else "no_active_response"})


class EventHistory(PlainView):
    @Operation("List the newest events of your sessions", record({"events": list_of(OBJECT)}))
    def get(self, request: Request) -> Response:
        """Return the newest 500 of the last day, the oldest first."""
        return Response({"events": observed_events.list_history(self.principal.user)})


def _snapshot() -> dict[str, Any]:
    now = datetime.now(UTC)
    seconds = int((now - queries.STARTED_AT).total_seconds())
    return {"pid": 0, "updated_at": iso(now), "uptime_seconds": seconds, "components": {}}
