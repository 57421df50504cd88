"""Pairing and devices. A device is an API key of its user with the scope of this surface."""

from typing import Any

from django.http import HttpRequest
from rest_framework.request import Request
from rest_framework.response import Response

from sessions_app.access import uuid_or_404
from sessions_app.identity import client_ip, device_codes
from sessions_app.surfaces.base.openapi.operations import Operation, Parameter
from sessions_app.surfaces.base.openapi.schemas import BOOLEAN, NULL, TEXT, just, list_of, record, ref
from sessions_app.surfaces.base.views import PlainView
from sessions_app.surfaces.zeroclaw.queries import NAME
from sessions_app.surfaces.zeroclaw.requests import PairBody
from sessions_app.surfaces.zeroclaw.responses import GatewayDeviceOut

_PAIRED = record({"paired": just(True), "persisted": BOOLEAN, "token": TEXT, "message": TEXT})
_PAIRS: dict[str, Any] = {"access": "open", "errors": [400, 403]}
_CODE = Parameter("X-Pairing-Code", "The code of the page of your devices.", TEXT, where="header", required=True)
_UNNAMED = "ZeroClaw client"


class Pair(PlainView):
    """POST /pair: the code in a header."""

    is_public = True

    @Operation("Pair a device, by a code in a header", _PAIRED, parameters=[_CODE], **_PAIRS)
    def post(self, request: Request) -> Response:
        return _pair(request._request, request.headers.get("X-Pairing-Code", ""), "")


class PairNamed(PlainView):
    """POST /api/pair: the code and the name of the device in the body."""

    is_public = True

    @Operation("Pair a device", _PAIRED, body=PairBody, **_PAIRS)
    def post(self, request: Request) -> Response:
        fields = self.body()
        return _pair(request._request, fields["code"], fields["device_name"] or fields["device_type"] or "")


class PairCode(PlainView):
    """GET /pair/code. A code is never shown here: users make it on a page, for which they log in."""

    is_public = True

    @Operation(
        "Learn how devices are paired",
        record({"success": BOOLEAN, "pairing_required": BOOLEAN, "pairing_code": NULL, "message": TEXT}),
        access="open",
    )
    def get(self, request: Request) -> Response:
        about = "Log in to Komand and make a code under Your account, Devices."
        return Response({"success": False, "pairing_required": True, "pairing_code": None, "message": about})


class DeviceList(PlainView):
    @Operation("List your devices", record({"devices": list_of(ref("GatewayDevice"))}))
    def get(self, request: Request) -> Response:
        keys = device_codes.list_devices(self.principal.user, NAME)
        return Response({"devices": [GatewayDeviceOut.of(key) for key in keys]})


class DeviceDetail(PlainView):
    @Operation("Remove a device", record({"deleted": BOOLEAN}))
    def delete(self, request: Request, key_id: str) -> Response:
        """Revoke its key, which may be that of this request."""
        device_codes.remove_device(self.principal.user, NAME, uuid_or_404(key_id, "device"))
        return Response({"deleted": True})


def _pair(request: HttpRequest, code: str, name: str) -> Response:
    address = client_ip.network_of(client_ip.of_request(request))
    made = device_codes.redeem_code(code, name.strip() or _UNNAMED, address=address)
    about = "The token is shown only now."
    return Response({"paired": True, "persisted": True, "token": made.key, "message": about})
