"""Networks of agents: checked, stored, changed, deleted, run."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from agents_app.network_runs import library
from agents_app.network_runs.progress import read_progress
from agents_app.networks.mermaid import to_mermaid
from agents_app.rights import CHANGE_NETWORKS, CREATE_NETWORKS, DELETE_NETWORKS
from agents_app.yaml_documents import UnusableFile
from sessions_app.access import access_network, access_run, access_runnable_network, access_session
from sessions_app.conversation.network_start import start_network
from sessions_app.identity import rate_limits
from sessions_app.identity.scopes import usable_agents
from sessions_app.surfaces.base.openapi.operations import IDEMPOTENCY_KEY, Operation
from sessions_app.surfaces.rest.objects import networks as objects
from sessions_app.surfaces.rest.objects.messages import AcceptedOut
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok


class NetworkList(RestView):
    @paged("List the networks that you may see", objects.NetworkOut)
    def get(self, request: Request) -> Response:
        return self.page_of(list(library.visible_networks(self.principal.user)), objects.NetworkOut.of)

    @Operation("Create a network", objects.NetworkInFullOut, body=objects.NetworkBody, errors=[404, 409])
    def post(self, request: Request) -> Response:
        self.require(CREATE_NETWORKS)
        body = self.body()
        user = self.principal.user
        is_shared = body["is_shared_with_everyone"]
        stored = library.create(body["definition"], usable_agents(user), owner_id=user.pk, is_shared=is_shared)
        return ok(objects.NetworkInFullOut.of(stored))


class NetworkCheck(RestView):
    """The problems of a definition. Nothing is stored."""

    @Operation("Check the definition of a network", objects.DefinitionCheckOut, body=objects.DefinitionBody)
    def post(self, request: Request) -> Response:
        text = self.body()["definition"]
        problems: tuple[Any, ...] = ()
        mermaid = ""
        try:
            mermaid = to_mermaid(library.read(text, usable_agents(self.principal.user)))
        except UnusableFile as error:
            problems = error.problems
        return ok(objects.DefinitionCheckOut.of(None, problems=problems, mermaid=mermaid))


class NetworkDetail(RestView):
    @Operation("Read a network", objects.NetworkInFullOut)
    def get(self, request: Request, name: str) -> Response:
        return ok(objects.NetworkInFullOut.of(access_network(self.principal.user, name)))

    @Operation("Change a network", objects.NetworkInFullOut, body=objects.NetworkBody, partial=True)
    def put(self, request: Request, name: str) -> Response:
        user = self.principal.user
        stored = access_network(user, name, needs=CHANGE_NETWORKS)
        body = self.body()
        shared = body.get("is_shared_with_everyone")
        changed = library.change(stored, usable_agents(user), text=body.get("definition"), is_shared=shared)
        return ok(objects.NetworkInFullOut.of(changed))

    @Operation("Delete a network")
    def delete(self, request: Request, name: str) -> Response:
        library.delete(access_network(self.principal.user, name, needs=DELETE_NETWORKS))
        return ok(None)


class NetworkRun(RestView):
    """Start the network as the caller, who must be allowed to use all its agents."""

    @Operation(
        "Run a network",
        AcceptedOut,
        body=objects.RunNetworkBody,
        parameters=[IDEMPOTENCY_KEY],
        status=202,
        errors=[409],
    )
    def post(self, request: Request, name: str) -> Response:
        user = self.principal.user
        body = self.body()
        stored = access_runnable_network(user, name)
        session = access_session(user, body["session_id"]) if body["session_id"] else None
        rate_limits.take(rate_limits.chat_limit(), self.principal.actor)
        accepted = start_network(
            stored,
            body["message"],
            owner=user,
            context=body["context_"],
            session=session,
            idempotency_key=request.headers.get("Idempotency-Key", ""),
        )
        shown = AcceptedOut.of(None, session_id=accepted.session_key, run_id=accepted.run_id)
        return ok(shown, status=202)


class NetworkRunDetail(RestView):
    """A run of a network, with the state and result of each task."""

    @Operation("Read a run of a network", objects.NetworkRunOut)
    def get(self, request: Request, run_id: str) -> Response:
        return ok(objects.NetworkRunOut.of(read_progress(access_run(self.principal.user, run_id).id)))
