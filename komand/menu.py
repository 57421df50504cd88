"""The menu of the admin."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from agents_app.admin.approvals import count_pending


def menu(request: HttpRequest) -> list[dict[str, Any]]:
    """Return groups of links, each visible to users who may open it. Approvals show the number of pending ones."""
    return [
        {
            "title": "Activity",
            "items": [
                {"title": "Dashboard", "icon": "monitoring", "link": reverse("admin:index")},
                _item("Runs", "play_circle", "agents_app", "run"),
                _item("Tool executions", "build", "tools_app", "toolexecution"),
                _approvals(request),
                _item("Sessions", "chat", "sessions_app", "session"),
                _item("Costs", "payments", "agents_app", "dailyusage"),
                _item("Feedback", "thumbs_up_down", "sessions_app", "feedback"),
                _item("Received", "move_to_inbox", "sessions_app", "inboundmessage"),
                _item("Shared chats", "share", "sessions_app", "sharelink"),
                _item("Attachments", "attach_file", "sessions_app", "attachment"),
                _item("Sent", "outbox", "sessions_app", "delivery"),
                _item("Questions", "contact_support", "tools_app", "inputrequest"),
                _item("Files", "draft", "tools_app", "artifact"),
                _item("Memories", "psychology", "tools_app", "memory"),
            ],
        },
        {
            "title": "Configuration",
            "items": [
                _item("Agents", "smart_toy", "agents_app", "agent"),
                _item("Networks", "account_tree", "agents_app", "storednetwork"),
                _item("Permissions", "verified_user", "tools_app", "grant"),
                _item("Emergency stop", "emergency_home", "tools_app", "control"),
                _item("Prompt templates", "description", "agents_app", "prompttemplate"),
                _item("Model providers", "neurology", "agents_app", "modelprovider"),
                _item("Channels", "forum", "sessions_app", "channelaccount"),
                _item("Schedules", "schedule", "sessions_app", "schedule"),
                _item("Paired senders", "link", "sessions_app", "pairing"),
                _item("MCP servers", "hub", "tools_app", "mcpserver"),
                _item("Skills", "extension", "tools_app", "skill"),
                _item("Credentials", "lock", "tools_app", "credential"),
                _item("API keys", "key", "sessions_app", "apikey"),
            ],
        },
        {
            "title": "Audit",
            "items": [
                _item("Audit log", "fact_check", "audit_app", "auditentry"),
                _item("Events", "timeline", "audit_app", "event"),
            ],
        },
        {
            "title": "Users",
            "items": [_item("Users", "person", "auth", "user"), _item("Groups", "group", "auth", "group")],
        },
    ]


def _item(title: str, icon: str, app: str, model: str) -> dict[str, Any]:
    link = reverse(f"admin:{app}_{model}_changelist")
    return {"title": title, "icon": icon, "link": link, "permission": _may(f"{app}.view_{model}")}


def _approvals(request: HttpRequest) -> dict[str, Any]:
    item = _item("Approvals", "gavel", "tools_app", "approval")
    waiting = count_pending() if item["permission"](request) else 0
    return {**item, "badge": str(waiting), "badge_variant": "warning"} if waiting else item


def _may(permission: str) -> Callable[[HttpRequest], bool]:
    return lambda request: request.user.has_perm(permission)
