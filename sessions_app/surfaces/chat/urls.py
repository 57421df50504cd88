"""The routes of the chat page."""

from django.urls import URLPattern, path

from sessions_app.surfaces.chat import commands, panel_views, request_list, views, workstream_actions

urlpatterns: list[URLPattern] = [
    path("", views.home, name="home"),
    path("chat/new", views.new_chat, name="chat-new"),
    path("chat/start", commands.start, name="chat-start"),
    path("chat/sessions", views.sessions, name="chat-sessions"),
    path("chat/waiting", request_list.waiting, name="chat-waiting"),
    path("chat/agents", views.search_agents, name="chat-agents"),
    path("chat/workstreams/ask", workstream_actions.ask, name="chat-ask-workstreams"),
    path("chat/runs/<uuid:run_id>/stop", commands.stop_run, name="chat-stop-run"),
    path("chat/runs/<uuid:run_id>/write", workstream_actions.write, name="chat-write"),
    path("chat/runs/<uuid:run_id>/pause", workstream_actions.pause, name="chat-pause"),
    path("chat/runs/<uuid:run_id>/retry", commands.retry_run, name="chat-retry-run"),
    path("chat/runs/<uuid:run_id>/regenerate", commands.regenerate, name="chat-regenerate"),
    path("chat/runs/<uuid:run_id>/edit", commands.edit, name="chat-edit"),
    path("chat/runs/<uuid:run_id>/branch", commands.select_branch, name="chat-branch"),
    path("chat/runs/<uuid:run_id>/feedback", commands.rate, name="chat-feedback"),
    path("chat/runs/<uuid:run_id>/pin", commands.pin, name="chat-pin"),
    path("chat/runs/<uuid:run_id>/details", views.details, name="chat-details"),
    path("chat/files/<uuid:artifact_id>", panel_views.file, name="chat-file"),
    path("chat/files/<uuid:artifact_id>/content", panel_views.content, name="chat-file-content"),
    path("chat/files/<uuid:artifact_id>/frame", panel_views.frame, name="chat-file-frame"),
    path("chat/approvals/<uuid:approval_id>/decide", commands.decide, name="chat-decide"),
    path("chat/questions/<uuid:execution_id>/answer", commands.answer, name="chat-answer"),
    path("chat/<uuid:session_id>", views.session, name="chat-session"),
    path("chat/<uuid:session_id>/turns", views.older_turns, name="chat-turns"),
    path("chat/<uuid:session_id>/workstreams", views.workstreams, name="chat-workstreams"),
    path("chat/<uuid:session_id>/files", views.files, name="chat-files"),
    path("chat/<uuid:session_id>/files.zip", panel_views.archive, name="chat-archive"),
    path("chat/<uuid:session_id>/file", panel_views.file_of_path, name="chat-file-of-path"),
    path("chat/<uuid:session_id>/messages", commands.send, name="chat-send"),
    path("chat/<uuid:session_id>/stop", commands.stop, name="chat-stop"),
    path("chat/<uuid:session_id>/title", commands.title, name="chat-title"),
    path("chat/<uuid:session_id>/delete", commands.delete, name="chat-delete"),
    path("chat/<uuid:session_id>/context", views.context, name="chat-context"),
    path("chat/<uuid:session_id>/compact", commands.compact, name="chat-compact"),
    path("chat/<uuid:session_id>/agent", commands.bind, name="chat-agent"),
]
