"""The caller's links with senders of channels: list, code, confirm, unlink."""

from uuid import UUID

from rest_framework.request import Request
from rest_framework.response import Response

from audit_app.fresh_login import LINK_CHANNEL
from audit_app.kernel.errors import Forbidden
from sessions_app.identity import sender_links
from sessions_app.identity.principal import Principal
from sessions_app.surfaces.base.openapi.operations import Operation
from sessions_app.surfaces.rest.objects.links import LinkCodeOut, LinkOut, NumberBody
from sessions_app.surfaces.rest.operations import paged
from sessions_app.surfaces.rest.views.base import RestView, ok


class LinkList(RestView):
    @paged("List your linked senders of channels", LinkOut)
    def get(self, request: Request) -> Response:
        return self.page_of(sender_links.list_links(self.principal.user), LinkOut.of)

    @Operation("Get a code to link a sender of a channel", LinkCodeOut)
    def post(self, request: Request) -> Response:
        """Return a code, only this once. It replaces an earlier one."""
        _refuse_key(self.principal)
        self.principal.require_fresh_login(LINK_CHANNEL)
        return ok(LinkCodeOut.of(sender_links.make_code(self.principal.user)))


class LinkConfirm(RestView):
    """Link the sender whose chat shows the number."""

    @Operation("Link the sender who has sent your code", LinkOut, body=NumberBody, errors=[409])
    def post(self, request: Request) -> Response:
        fields = self.body()
        _refuse_key(self.principal)
        return ok(LinkOut.of(sender_links.confirm(self.principal.user, **fields)))


class LinkDetail(RestView):
    @Operation("Unlink a sender")
    def delete(self, request: Request, link_id: UUID) -> Response:
        sender_links.unlink(self.principal.user, link_id)
        return ok(None)


def _refuse_key(principal: Principal) -> None:
    """Raise Forbidden for an API key: a leaked one would open the user's memories to a sender."""
    if principal.kind == "api_key":
        raise Forbidden("An API key cannot link a channel. Log in with a password.", code="key_links_channel")
