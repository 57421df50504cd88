"""How the operators' pages look: the settings of the admin theme."""

from typing import Any

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "Komand",
    "SITE_HEADER": "Komand",
    "SITE_SUBHEADER": "Operators",
    "SITE_URL": "/",
    "SITE_SYMBOL": "forum",
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
}
