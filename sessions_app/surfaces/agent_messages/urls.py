"""Routes of views, without a trailing slash. Routes of streams are in `consumers`."""

from django.urls import path, re_path

from sessions_app.surfaces.agent_messages.views import artifacts, documents, messages, runs, tokens, workflows
from sessions_app.surfaces.agent_messages.views.base import NotOfferedView
from sessions_app.surfaces.base.views import UnknownRoute

app_name = "agents"

_RUN = "api/v1/agents/<str:run_id>"
_WORKFLOW = "api/v1/workflows/runs/<str:workflow_id>/<str:run_id>"
_PROCESSES = NotOfferedView.as_view(what="The process engine")
_ANALYTICS = NotOfferedView.as_view(what="Analytics")
_OUTSIDE = NotOfferedView.as_view(what="Running agents in an outside workflow engine")

urlpatterns = [
    path("token/issue", tokens.TokenIssue.as_view(), name="token-issue"),
    path("api/v1/agents", runs.RunList.as_view(), name="run-list"),
    path("api/v1/agents/search", runs.RunSearch.as_view(), name="run-search"),
    path("api/v1/agents/record", _OUTSIDE, name="run-record"),
    re_path(r"^api/v1/(?:agents|workflows)/analytics(?:/.*)?$", _ANALYTICS, name="analytics"),
    path(_RUN, runs.RunDetail.as_view(), name="run-detail"),
    path(f"{_RUN}/restart", runs.RunRestart.as_view(), name="run-restart"),
    path(f"{_RUN}/fork", runs.RunFork.as_view(), name="run-fork"),
    path(f"{_RUN}/status", runs.RunStatusUpdate.as_view(), name="run-status"),
    path(f"{_RUN}/workflow", _OUTSIDE, name="run-workflow"),
    path(f"{_RUN}/internals", runs.RunInternals.as_view(), name="run-internals"),
    path(f"{_RUN}/details", runs.RunDetails.as_view(), name="run-details"),
    path(f"{_RUN}/children", runs.RunChildren.as_view(), name="run-children"),
    path(f"{_RUN}/children/<str:child_id>/details", runs.ChildDetails.as_view(), name="run-child-details"),
    path(f"{_RUN}/signal/<str:signal>", messages.RunSignal.as_view(), name="run-signal"),
    path(f"{_RUN}/query/<str:query>", messages.RunQuery.as_view(), name="run-query"),
    path(f"{_RUN}/updates", messages.RunUpdates.as_view(), name="run-updates"),
    path(f"{_RUN}/events", messages.RunEvents.as_view(), name="run-events"),
    path(f"{_RUN}/artifacts", artifacts.ArtifactList.as_view(), name="artifact-list"),
    path(f"{_RUN}/artifacts/<path:path>", artifacts.ArtifactDetail.as_view(), name="artifact"),
    path(f"{_RUN}/artifact-content/<path:path>", artifacts.ArtifactContent.as_view(), name="artifact-content"),
    re_path(r"^api/v1/agents/[^/]+/(?:context|history|advance|retry-node|answer-task)$", _PROCESSES, name="processes"),
    path("api/v1/artifact-blobs/<str:token>/<path:name>", artifacts.Blob.as_view(), name="artifact-blob"),
    path("api/v1/files/list", artifacts.FileList.as_view(), name="file-list"),
    path("api/v1/files/download-url", artifacts.DownloadUrl.as_view(), name="download-url"),
    path("api/v1/files/upload-url", artifacts.UploadUrl.as_view(), name="upload-url"),
    path("api/v1/objects/search", documents.DocumentSearch.as_view(), name="document-search"),
    path("api/v1/objects/<str:artifact_id>", documents.DocumentDetail.as_view(), name="document"),
    path("api/v1/objects/<str:artifact_id>/text", documents.DocumentText.as_view(), name="document-text"),
    path("api/v1/execute/async", runs.ExecuteAsync.as_view(), name="execute-async"),
    path("api/v1/workflows/runs", workflows.WorkflowRuns.as_view(), name="workflow-runs"),
    path("api/v1/workflows/conversations", workflows.WorkflowRuns.as_view(), name="conversations"),
    path("api/v1/workflows/execute/<str:name>", workflows.Execute.as_view(), name="workflow-execute"),
    path("api/v1/workflows/runs/<str:run_id>/updates", messages.RunUpdates.as_view(), name="workflow-post"),
    path(_WORKFLOW, runs.RunDetails.as_view(), name="workflow-details"),
    path(f"{_WORKFLOW}/updates", messages.RunUpdates.as_view(), name="workflow-updates"),
    path(f"{_WORKFLOW}/signal/<str:signal>", messages.RunSignal.as_view(), name="workflow-signal"),
    path(f"{_WORKFLOW}/query/<str:query>", messages.RunQuery.as_view(), name="workflow-query"),
    path(f"{_WORKFLOW}/events", messages.RunEvents.as_view(), name="workflow-events"),
    path(f"{_WORKFLOW}/interaction", workflows.RunInteraction.as_view(), name="workflow-interaction"),
    path(f"{_WORKFLOW}/actions/<str:action>", workflows.RunAction.as_view(), name="workflow-action"),
    re_path(r"^api/v1/workflows/(?:activity-catalog|rules|definitions)(?:/.*)?$", _OUTSIDE, name="definitions"),
    re_path(
        r"^api/v1/pending-asks(?:/.*)?$", NotOfferedView.as_view(what="The inbox of questions"), name="pending-asks"
    ),
    re_path(r"^api/v1/tasks(?:/.*)?$", NotOfferedView.as_view(what="The list of tasks"), name="tasks"),
    re_path(r"^api/v1/rendering(?:/.*)?$", NotOfferedView.as_view(what="Rendering of documents"), name="rendering"),
    path("api/v1/apps/installations", runs.AppInstallations.as_view(), name="app-installations"),
    re_path(r"^api/v1/", UnknownRoute.as_view(), name="unknown"),
]
