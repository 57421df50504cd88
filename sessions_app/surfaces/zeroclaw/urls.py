"""Routes of views, beside those of consumers.py. What clients call besides is answered with 501."""

from django.urls import path, re_path

from sessions_app.surfaces.base.views import UnknownRoute
from sessions_app.surfaces.zeroclaw import memory_calls, paired_devices, reports, scheduled_jobs, views

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
    path("zeroclaw/api/memory", memory_calls.MemoryList.as_view(), name="memory-list"),
    path("zeroclaw/api/memory/<path:key>", memory_calls.MemoryDetail.as_view(), name="memory-detail"),
    path("zeroclaw/api/cron", scheduled_jobs.JobList.as_view(), name="job-list"),
    re_path("^zeroclaw/api/cron/settings$", views.Unserved.as_view(), name="job-settings"),
    path("zeroclaw/api/cron/<str:task_id>", scheduled_jobs.JobDetail.as_view(), name="job-detail"),
    path("zeroclaw/api/cron/<str:task_id>/runs", scheduled_jobs.JobRuns.as_view(), name="job-runs"),
    path("zeroclaw/api/cost", reports.Cost.as_view(), name="cost"),
    path("zeroclaw/api/channels", reports.ChannelList.as_view(), name="channel-list"),
    path("zeroclaw/api/events/history", views.EventHistory.as_view(), name="event-history"),
    re_path("^zeroclaw/(?:api/|admin/|a2a/|metrics$)", views.Unserved.as_view(), name="unserved"),
    re_path("^zeroclaw/", UnknownRoute.as_view(), name="unknown"),
]
