"""Channel accounts with their state, their routes, and the deliveries that were given up, for operators."""

from typing import Any
from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.kernel.errors import Conflict, found
from sessions_app.access import access_agent, access_channel_account, access_runnable_network, list_channel_accounts
from sessions_app.channels import account_state, routes
from sessions_app.channels.outbound import dead_letters
from sessions_app.models import ChannelAccount, ChannelRoute
from sessions_app.rights import MANAGE_CHANNELS, RESEND_DELIVERIES, VIEW_CHANNELS, VIEW_DELIVERIES
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects import channels as objects
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok

_ROUTE = "With an agent or a network that you may use."


class ChannelList(RestView):
    @paged("List channel accounts", objects.ChannelAccountOut, errors=[403])
    def get(self, request: Request) -> Response:
        rows = list_channel_accounts(self.principal.user)
        counts = account_state.count_deliveries([row.pk for row in rows])
        return self.page_of(rows, lambda row: objects.ChannelAccountOut.of(row, queue=counts[row.pk]))


class ChannelDetail(RestView):
    @Operation("Read a channel account with its state", objects.ChannelAccountOut, errors=[403])
    def get(self, request: Request, channel_id: UUID) -> Response:
        account = access_channel_account(self.principal.user, channel_id, VIEW_CHANNELS, MANAGE_CHANNELS)
        return ok(objects.ChannelAccountOut.of(account))


class RouteView(RestView):
    """Routes of an account, in the order of their chats and senders."""

    def _account(self, channel_id: UUID, *, is_change: bool = False) -> ChannelAccount:
        needed = (MANAGE_CHANNELS,) if is_change else (VIEW_CHANNELS, MANAGE_CHANNELS)
        return access_channel_account(self.principal.user, channel_id, *needed)

    @staticmethod
    def _route(account: ChannelAccount, route_id: UUID) -> ChannelRoute:
        rows = ChannelRoute.objects.select_related("account", "agent", "network")
        return found(rows.filter(account=account, pk=route_id).first(), "There is no such route.", code="unknown_route")

    def _save(self, route: ChannelRoute, body: dict[str, Any]) -> Response:
        route.chat_id, route.sender_id = body.get("chat_id", route.chat_id), body.get("sender_id", route.sender_id)
        if "agent_id" in body or "network" in body:
            agent_id, network = body.get("agent_id"), body.get("network")
            route.agent = access_agent(self.principal.user, agent_id) if agent_id else None
            route.network = access_runnable_network(self.principal.user, network) if network else None
        return ok(objects.RouteOut.of(routes.save(route)))


class RouteList(RouteView):
    @paged("List the routes of a channel account", objects.RouteOut, errors=[403, 404])
    def get(self, request: Request, channel_id: UUID) -> Response:
        rows = self._account(channel_id).routes.select_related("agent", "network")
        return self.page_of(list(rows), objects.RouteOut.of)

    @Operation("Add a route", objects.RouteOut, body=objects.RouteBody, errors=[404, 409], description=_ROUTE)
    def post(self, request: Request, channel_id: UUID) -> Response:
        account = self._account(channel_id, is_change=True)
        return self._save(ChannelRoute(account=account), self.body())


class RouteDetail(RouteView):
    @Operation("Read a route", objects.RouteOut, errors=[403])
    def get(self, request: Request, channel_id: UUID, route_id: UUID) -> Response:
        return ok(objects.RouteOut.of(self._route(self._account(channel_id), route_id)))

    @Operation(
        "Change a route", objects.RouteOut, body=objects.RouteBody, partial=True, errors=[409], description=_ROUTE
    )
    def put(self, request: Request, channel_id: UUID, route_id: UUID) -> Response:
        """Change what the body has. An agent replaces the network, and the other way round."""
        route = self._route(self._account(channel_id, is_change=True), route_id)
        return self._save(route, self.body())

    @Operation("Delete a route")
    def delete(self, request: Request, channel_id: UUID, route_id: UUID) -> Response:
        routes.remove(self._route(self._account(channel_id, is_change=True), route_id))
        return ok(None)


class DeliveryList(RestView):
    @paged("List deliveries that were given up", objects.DeliveryOut, objects.DeliveryQuery, errors=[403, 404])
    def get(self, request: Request, channel_id: UUID) -> Response:
        account = access_channel_account(self.principal.user, channel_id, VIEW_DELIVERIES, RESEND_DELIVERIES)
        rows, page = dead_letters.list_of(account, self.query()["status"]), self.page()
        shown = rows[page.offset : page.offset + page.size]
        return ok([objects.DeliveryOut.of(row) for row in shown], page.meta(rows.count()))


class DeliverySendAgain(RestView):
    @Operation(
        "Send a delivery again",
        objects.DeliveryOut,
        errors=[409],
        description="A message that has arrived is then delivered twice.",
    )
    def post(self, request: Request, channel_id: UUID, delivery_id: int) -> Response:
        """Send a delivery again that was given up. What may have arrived would then arrive twice."""
        account = access_channel_account(self.principal.user, channel_id, RESEND_DELIVERIES)
        delivery = dead_letters.find(account, delivery_id)
        if not dead_letters.send_again([delivery]):
            raise Conflict(
                "This delivery was sent or is still queued, so it cannot be sent again.", code="not_given_up"
            )
        delivery.refresh_from_db()
        return ok(objects.DeliveryOut.of(delivery))
