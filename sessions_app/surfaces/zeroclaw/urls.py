"""Routes of views, beside those of consumers.py. What clients call besides is answered with 501."""

from django.urls import path, re_path

from sessions_app.surfaces.base.views import UnknownRoute
from sessions_app.surfaces.zeroclaw import views

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
    re_path("^zeroclaw/(?:api/|admin/|a2a/|pair|metrics$)", views.Unserved.as_view(), name="unserved"),
    re_path("^zeroclaw/", UnknownRoute.as_view(), name="unknown"),
]
