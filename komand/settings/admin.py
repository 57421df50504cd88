"""Settings of the admin theme."""

from typing import Any

from django.templatetags.static import static

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Komand",
    "SITE_HEADER": "Komand",
    "SITE_SUBHEADER": "Admin",
    "SITE_URL": "/",
    "SITE_ICON": lambda request: static("img/komand.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("img/komand.svg")}],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "komand.dashboard.dashboard",
    "COMMAND": {"search_callback": "komand.dashboard.find_by_id"},
    "STYLES": [lambda request: static("admin_komand/admin.css")],
    # The colours of the chat page: warm greys and teal.
    "COLORS": {
        "base": {
            "50": "oklch(98.5% .003 85)",
            "100": "oklch(96.5% .004 85)",
            "200": "oklch(91.5% .007 85)",
            "300": "oklch(86% .009 85)",
            "400": "oklch(70% .012 85)",
            "500": "oklch(55% .012 85)",
            "600": "oklch(44% .012 85)",
            "700": "oklch(37% .01 85)",
            "800": "oklch(28% .008 85)",
            "900": "oklch(21% .006 85)",
            "950": "oklch(15% .005 85)",
        },
        "primary": {
            "50": "oklch(97% .02 180)",
            "100": "oklch(94% .035 180)",
            "200": "oklch(88% .06 180)",
            "300": "oklch(80% .09 180)",
            "400": "oklch(74% .1 180)",
            "500": "oklch(58% .095 180)",
            "600": "oklch(47% .08 180)",
            "700": "oklch(41% .07 180)",
            "800": "oklch(36% .06 180)",
            "900": "oklch(31% .05 180)",
            "950": "oklch(24% .04 180)",
        },
    },
    "SIDEBAR": {
        "show_search": False,
        "command_search": True,
        "show_all_applications": False,
        "navigation": "komand.menu.menu",
    },
}
