"""Unverified descriptions of the devices of logins, from what browsers and programs send about themselves.."""

_PROGRAMS = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
    ("python", "A Python program"),
    ("node", "A Node program"),
)
_SYSTEMS = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("Linux", "Linux"),
)


def describe(user_agent: str) -> str:
    """Return `Firefox on Linux`, or the beginning of what the program sent."""
    program = next((name for mark, name in _PROGRAMS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    found = " on ".join(part for part in (program, system) if part)
    return found or user_agent[:60] or "An unknown program"
