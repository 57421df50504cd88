"""QR codes for the cameras of phones."""

import segno


def as_svg(text: str) -> str:
    """Return the QR code of a text as an SVG element, black on white in any theme."""
    return segno.make(text, error="m").svg_inline(scale=4, dark="#000", light="#fff")
