"""The one way to shorten a text for people. Pure."""


def shorten(text: str, length: int) -> str:
    """Return the text in at most `length` characters; a text that was cut ends with "…"."""
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"


def one_line(text: str, length: int) -> str:
    """Return the text on one line of at most `length` characters, each run of white space as one blank."""
    return shorten(" ".join(text.split()), length)
