"""Routes of views, beside those of consumers.py. The OpenAI protocol has other names under /v1."""

from django.urls import path

from sessions_app.surfaces.threads.views import api_keys, audit, auth, feedback, jobs, messages, threads

app_name = "threads"

urlpatterns = [
    path("v1/threads", threads.ThreadList.as_view(), name="thread-list"),
    path("v1/threads/<str:thread_id>", threads.ThreadDetail.as_view(), name="thread-detail"),
    path("v1/threads/<str:thread_id>/user_message", threads.UserMessage.as_view(), name="user-message"),
    path("v1/threads/<str:thread_id>/messages", messages.MessageList.as_view(), name="message-list"),
    path(
        "v1/threads/<str:thread_id>/messages/<str:message_id>", messages.MessageDetail.as_view(), name="message-detail"
    ),
    path("v1/system-jobs/<str:workflow_id>", jobs.Job.as_view(), name="job"),
    path("v1/workflows/<str:workflow_id>", jobs.Job.as_view(), name="workflow"),  # the path of older clients
    path("v1/diagnostics/threads/<str:thread_id>", jobs.ThreadDiagnostics.as_view(), name="diagnostics"),
    path("v1/feedback", feedback.FeedbackList.as_view(), name="feedback-list"),
    path("v1/feedback/<uuid:feedback_id>", feedback.FeedbackDetail.as_view(), name="feedback-detail"),
    path("v1/api-keys", api_keys.ApiKeyList.as_view(), name="api-key-list"),
    path("v1/api-keys/<uuid:key_id>", api_keys.ApiKeyDetail.as_view(), name="api-key-detail"),
    path("v1/auth/pw/signin", auth.SignIn.as_view(), name="sign-in"),
    path("v1/auth/signout", auth.SignOut.as_view(), name="sign-out"),
    path("v1/auth/uat", auth.Refresh.as_view(), name="refresh"),
    path("v1/users/me", auth.Me.as_view(), name="me"),
    path("v1/audit-events", audit.AuditEventList.as_view(), name="audit-event-list"),
    path("v1/audit-events/export", audit.AuditEventExport.as_view(), name="audit-event-export"),
    path("healthz", auth.Health.as_view(), name="health"),
]
