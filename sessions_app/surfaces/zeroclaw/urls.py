"""Routes of views, beside those of consumers.py. What clients call besides is answered with 501."""

from django.urls import path, re_path

from sessions_app.surfaces.base.views import UnknownRoute
from sessions_app.surfaces.zeroclaw import paired_devices, views

app_name = "zeroclaw"

urlpatterns = [
    path("zeroclaw/health", views.Health.as_view(), name="health"),
    path("zeroclaw/api/health", views.RuntimeHealth.as_view(), name="runtime-health"),
    path("zeroclaw/api/status", views.Status.as_view(), name="status"),
    path("zeroclaw/api/sessions", views.SessionList.as_view(), name="session-list"),
    path("zeroclaw/api/sessions/running", views.GatewaySessionList.as_view(), name="gateway-session-list"),
    path("zeroclaw/api/sessions/<str:session_id>", views.SessionDetail.as_view(), name="session-detail"),
    path("zeroclaw/api/sessions/<str:session_id>/messages", views.SessionMessages.as_view(), name="session-messages"),
    path("zeroclaw/api/sessions/<str:session_id>/state", views.SessionState.as_view(), name="session-state"),
    path("zeroclaw/api/sessions/<str:session_id>/abort", views.SessionAbort.as_view(), name="session-abort"),
    path("zeroclaw/pair", paired_devices.Pair.as_view(), name="pair"),
    path("zeroclaw/pair/code", paired_devices.PairCode.as_view(), name="pair-code"),
    path("zeroclaw/api/pair", paired_devices.PairNamed.as_view(), name="pair-named"),
    path("zeroclaw/api/devices", paired_devices.DeviceList.as_view(), name="device-list"),
    path("zeroclaw/api/devices/<str:key_id>", paired_devices.DeviceDetail.as_view(), name="device-detail"),
    re_path("^zeroclaw/(?:api/|admin/|a2a/|metrics$)", views.Unserved.as_view(), name="unserved"),
    re_path("^zeroclaw/", UnknownRoute.as_view(), name="unknown"),
]
