"""The routes of the chat page."""

from django.urls import URLPattern, path

from sessions_app.surfaces.chat import actions, login, pages

urlpatterns: list[URLPattern] = [
    path("", pages.home, name="home"),
    path("login", login.login, name="login"),
    path("logout", login.logout, name="logout"),
    path("chat/new", pages.new_chat, name="chat-new"),
    path("chat/start", actions.start, name="chat-start"),
    path("chat/sessions", pages.sessions, name="chat-sessions"),
    path("chat/runs/<uuid:run_id>/stop", actions.stop_run, name="chat-stop-run"),
    path("chat/runs/<uuid:run_id>/retry", actions.retry_run, name="chat-retry-run"),
    path("chat/approvals/<uuid:approval_id>/decide", actions.decide, name="chat-decide"),
    path("chat/<uuid:session_id>", pages.session, name="chat-session"),
    path("chat/<uuid:session_id>/turns", pages.older_turns, name="chat-turns"),
    path("chat/<uuid:session_id>/files", pages.files, name="chat-files"),
    path("chat/<uuid:session_id>/messages", actions.send, name="chat-send"),
    path("chat/<uuid:session_id>/stop", actions.stop, name="chat-stop"),
    path("chat/<uuid:session_id>/title", actions.title, name="chat-title"),
    path("chat/<uuid:session_id>/delete", actions.delete, name="chat-delete"),
    path("chat/<uuid:session_id>/agent", actions.bind, name="chat-agent"),
]
