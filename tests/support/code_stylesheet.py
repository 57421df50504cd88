"""Generates the stylesheet of highlighted code: `python -m tests.support.code_stylesheet > static/css/code.css`.

Two styles of Pygments, for light and dark pages, each colour adjusted to the least contrast.
"""

import sys

from pygments.styles import get_style_by_name
from pygments.token import STANDARD_TYPES

from sessions_app.surfaces.base.highlight import PREFIX

LIGHT, LIGHT_GROUND = "friendly", "f6f4f0"
DARK, DARK_GROUND = "github-dark", "1b1b19"
_LEAST_CONTRAST = 4.6  # a little above the 4.5 that WCAG AA requires of text
_HEAD = "/* Made by tests/support/code_stylesheet.py from Pygments' styles. Do not edit. */\n"

RGB = tuple[int, int, int]


def stylesheet() -> str:
    light, dark = get_style_by_name(LIGHT), get_style_by_name(DARK)
    rules: dict[str, list[str]] = {}
    for kind, name in STANDARD_TYPES.items():
        if not name:
            continue
        in_light, in_dark = light.style_for_token(kind), dark.style_for_token(kind)
        marks = []
        if in_light["color"] or in_dark["color"]:
            day = readable(in_light["color"] or "2f2c28", LIGHT_GROUND)
            night = readable(in_dark["color"] or "e4e2dd", DARK_GROUND)
            marks.append(f"color: light-dark(#{day}, #{night})")
        if in_light["bold"] and in_dark["bold"]:
            marks.append("font-weight: 600")
        if in_light["italic"] or in_dark["italic"]:
            marks.append("font-style: italic")
        if marks:
            rules.setdefault("; ".join(marks), []).append(f".{PREFIX}{name}")
    return _HEAD + "".join(f"{', '.join(names)} {{ {marks} }}\n" for marks, names in rules.items())


def readable(colour: str, ground: str) -> str:
    """Return the colour, moved towards black or white until it has the least contrast with the background."""
    goal = (0, 0, 0) if _luminance(_rgb(ground)) > 0.5 else (255, 255, 255)
    moved = _rgb(colour)
    while contrast(moved, _rgb(ground)) < _LEAST_CONTRAST:
        moved = _towards(moved, goal)
    return "".join(f"{channel:02x}" for channel in moved)


def contrast(one: RGB, other: RGB) -> float:
    """Return the contrast ratio of two colours, 1 to 21 (WCAG 2.1, section 1.4.3)."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: RGB) -> float:
    shares = [channel / 255 for channel in colour]
    red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _towards(colour: RGB, goal: RGB) -> RGB:
    red, green, blue = (now + (8 if end > now else -8) for now, end in zip(colour, goal, strict=True))
    return _bounded(red), _bounded(green), _bounded(blue)


def _bounded(channel: int) -> int:
    return max(0, min(channel, 255))


def _rgb(text: str) -> RGB:
    return int(text[0:2], 16), int(text[2:4], 16), int(text[4:6], 16)


if __name__ == "__main__":
    sys.stdout.write(stylesheet())
