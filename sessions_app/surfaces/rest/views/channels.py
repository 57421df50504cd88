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
from sessions_app.surfaces.rest.objects import channels as fields
from sessions_app.surfaces.rest.views.base import RestView, ok


class ChannelList(RestView):
    def get(self, request: Request) -> Response:
        rows = list_channel_accounts(self.principal.user)
        counts = account_state.count_deliveries([row.pk for row in rows])
        return self.page_of(rows, lambda row: fields.ChannelAccountOut.of(row, queue=counts[row.pk]))


class ChannelDetail(RestView):
    def get(self, request: Request, channel_id: UUID) -> Response:
        account = access_channel_account(self.principal.user, channel_id, VIEW_CHANNELS, MANAGE_CHANNELS)
        return ok(fields.ChannelAccountOut.of(account))


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
        return ok(fields.RouteOut.of(routes.save(route)))


class RouteList(RouteView):
    def get(self, request: Request, channel_id: UUID) -> Response:
        rows = self._account(channel_id).routes.select_related("agent", "network")
        return self.page_of(list(rows), fields.RouteOut.of)

    def post(self, request: Request, channel_id: UUID) -> Response:
        account = self._account(channel_id, is_change=True)
        return self._save(ChannelRoute(account=account), self.body(fields.RouteBody))


class RouteDetail(RouteView):
    def get(self, request: Request, channel_id: UUID, route_id: UUID) -> Response:
        return ok(fields.RouteOut.of(self._route(self._account(channel_id), route_id)))

    def put(self, request: Request, channel_id: UUID, route_id: UUID) -> Response:
        """Change what the body has. An agent replaces the network, and the other way round."""
        route = self._route(self._account(channel_id, is_change=True), route_id)
        return self._save(route, self.body(fields.RouteBody, partial=True))

    def delete(self, request: Request, channel_id: UUID, route_id: UUID) -> Response:
        routes.remove(self._route(self._account(channel_id, is_change=True), route_id))
        return ok(None)


class DeliveryList(RestView):
    def get(self, request: Request, channel_id: UUID) -> Response:
        account = access_channel_account(self.principal.user, channel_id, VIEW_DELIVERIES, RESEND_DELIVERIES)
        query = self.query(fields.DeliveryQuery)
        rows, page = dead_letters.list_of(account, query.validated_data["status"]), query.wanted
        shown = rows[page.offset : page.offset + page.size]
        return ok([fields.DeliveryOut.of(row) for row in shown], page.meta(rows.count()))


class DeliverySendAgain(RestView):
    def post(self, request: Request, channel_id: UUID, delivery_id: int) -> Response:
        """Send a delivery again that was given up. What may have arrived would then arrive twice."""
        account = access_channel_account(self.principal.user, channel_id, RESEND_DELIVERIES)
        delivery = dead_letters.find(account, delivery_id)
        if not dead_letters.send_again([delivery]):
            raise Conflict("It was sent, or it is waiting to be sent.", code="not_given_up")
        delivery.refresh_from_db()
        return ok(fields.DeliveryOut.of(delivery))
