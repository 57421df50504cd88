"""Shared memory of a session, of a run and of a network: read and changed by the user of its session."""

from abc import ABC, abstractmethod

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.network_runs.shared_spaces import space_of
from sessions_app.access import access_run, access_session
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import shared_memory as objects
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok
from tools_app.storage import shared_memory, shared_memory_edits
from tools_app.storage.shared_memory import Space


class _Values(RestView, ABC):
    """Base of the views of shared memory."""

    @abstractmethod
    def space(self, **owner: str) -> Space:
        """Return the memory of a session or a run. owner: the parameters of the path. Raises NotFound."""


class _ValueList(_Values):
    def get(self, request: Request, **owner: str) -> Response:
        space, query = self.space(**owner), self.query()
        return self.page_of(shared_memory.find(space, query["pattern"]), objects.SharedValueOut.of)


class _Value(_Values):
    def get(self, request: Request, key: str, **owner: str) -> Response:
        return ok(objects.SharedValueOut.of(shared_memory_edits.get(self.space(**owner), key)))

    def put(self, request: Request, key: str, **owner: str) -> Response:
        space, body, writer = self.space(**owner), self.body(), self.principal.actor
        stored = shared_memory_edits.put(space, key, body["value"], writer=writer, expected=body["expected_version"])
        return ok(objects.SharedValueOut.of(stored))

    def delete(self, request: Request, key: str, **owner: str) -> Response:
        shared_memory_edits.remove(self.space(**owner), key, writer=self.principal.actor)
        return ok(None)


class _OfSession(_Values):
    def space(self, **owner: str) -> Space:
        return Space("session", access_session(self.principal.user, owner["session_id"]).id)


class _OfRun(_Values):
    def space(self, **owner: str) -> Space:
        run = access_run(self.principal.user, owner["run_id"])
        return space_of(run.id, self.query().get("space", ""))


class SessionValueList(_OfSession, _ValueList):
    get = paged("List the shared memory of a session", objects.SharedValueOut, objects.PatternQuery)(_ValueList.get)


class SessionValue(_OfSession, _Value):
    get = Operation("Read a shared value", objects.SharedValueOut)(_Value.get)
    put = Operation("Store a shared value", objects.SharedValueOut, body=objects.SharedValueBody, errors=[409])(
        _Value.put
    )
    delete = Operation("Delete a shared value")(_Value.delete)


class RunValueList(_OfRun, _ValueList):
    get = paged("List the shared memory of a run", objects.SharedValueOut, objects.SpacePatternQuery)(_ValueList.get)


class RunValue(_OfRun, _Value):
    get = Operation("Read a value of a run", objects.SharedValueOut, query=objects.SpaceQuery)(_Value.get)
    put = Operation(
        "Store a value for a run",
        objects.SharedValueOut,
        body=objects.SharedValueBody,
        query=objects.SpaceQuery,
        errors=[409],
    )(_Value.put)
    delete = Operation("Delete a value of a run", query=objects.SpaceQuery)(_Value.delete)
