"""The page where users pair devices, which get keys for the surface of ZeroClaw's clients, and remove them."""

from typing import Any
from uuid import UUID

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from audit_app import fresh_login
from audit_app.kernel.safe_text import visible
from sessions_app.identity import device_codes
from sessions_app.identity.scopes import RIGHTS
from sessions_app.surfaces.base.pages import PageRequest, page

SCOPE = "zeroclaw"
_PAGE = "/account/devices"


@page("GET")
def list_devices(request: PageRequest) -> HttpResponse:
    """Show the devices."""
    return _show(request)


@never_cache
@page("POST")
def make_code(request: PageRequest) -> HttpResponse:
    """Create a code and show it once."""
    fresh_login.require(request, fresh_login.CREATE_API_KEY)
    scopes = [SCOPE, RIGHTS] if request.POST.get("with_rights") == "yes" else [SCOPE]
    code = device_codes.make_code(request.user, scopes)
    return _show(request, code=f"{code[:4]} {code[4:]}")


@page("POST")
def remove(request: PageRequest, key_id: UUID) -> HttpResponse:
    """Remove a device: its key ends at once."""
    device_codes.remove_device(request.user, SCOPE, key_id)
    return HttpResponseRedirect(_PAGE)


def _show(request: PageRequest, **shown: Any) -> HttpResponse:
    keys = device_codes.list_devices(request.user, SCOPE)
    devices = [{"row": key, "name": visible(key.name), "has_rights": RIGHTS in key.scopes} for key in keys]
    return render(request, "account/devices.html", {"devices": devices, "minutes": device_codes.MINUTES, **shown})
