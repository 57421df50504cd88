"""How the operators' pages look and what their menu offers: the settings of the admin theme."""

from collections.abc import Callable
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse_lazy


def _may(permission: str) -> Callable[[HttpRequest], bool]:
    return lambda request: request.user.has_perm(permission)


def _item(title: str, icon: str, app: str, model: str) -> dict[str, Any]:
    return {
        "title": title,
        "icon": icon,
        "link": reverse_lazy(f"admin:{app}_{model}_changelist"),
        "permission": _may(f"{app}.view_{model}"),
    }


UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Komand",
    "SITE_HEADER": "Komand",
    "SITE_SUBHEADER": "Operators",
    "SITE_URL": "/",
    "SITE_SYMBOL": "forum",
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "komand.dashboard.dashboard",
    "COMMAND": {"search_callback": "komand.dashboard.find_by_id"},
    "STYLES": [lambda request: static("admin_komand/admin.css")],
    "COLORS": {
        "primary": {
            "50": "oklch(97.7% .014 236)",
            "100": "oklch(95.1% .026 236)",
            "200": "oklch(90.1% .058 236)",
            "300": "oklch(82.8% .111 236)",
            "400": "oklch(74.6% .14 237)",
            "500": "oklch(64% .148 240)",
            "600": "oklch(52% .134 243)",
            "700": "oklch(46% .12 244)",
            "800": "oklch(41% .098 243)",
            "900": "oklch(35% .08 244)",
            "950": "oklch(27% .06 246)",
        },
    },
    "SIDEBAR": {
        "show_search": False,
        "command_search": True,
        "show_all_applications": False,
        "navigation": [
            {
                "title": "What happens",
                "items": [
                    {"title": "Dashboard", "icon": "monitoring", "link": reverse_lazy("admin:index")},
                    _item("Runs", "play_circle", "agents_app", "run"),
                    _item("Tool executions", "build", "tools_app", "toolexecution"),
                    _item("Sessions", "chat", "sessions_app", "session"),
                ],
            },
            {
                "title": "Set up",
                "items": [
                    _item("Agents", "smart_toy", "agents_app", "agent"),
                    _item("Model providers", "neurology", "agents_app", "modelprovider"),
                    _item("API keys", "key", "sessions_app", "apikey"),
                ],
            },
            {
                "title": "On record",
                "items": [
                    _item("Audit log", "fact_check", "audit_app", "auditentry"),
                    _item("Events", "timeline", "audit_app", "event"),
                ],
            },
            {
                "title": "People",
                "items": [_item("Users", "person", "auth", "user"), _item("Groups", "group", "auth", "group")],
            },
        ],
    },
}
