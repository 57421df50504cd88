"""HTML from outside, made harmless for the parser of Python's library, which takes quadratic time for some of it. Pure.

Every module that parses HTML passes its text through `closed`; a test holds that.
"""

import re

_DECLARATION = re.compile(r"<!\[[^>]*>")  # of a word processor; to HTML, a comment


def closed(html: str, most: int) -> str:
    """Return at most so many characters of the text, with all markup that never ends as text. Takes linear time.

    The parser of some versions of Python looks for its end until the end of the text, and again from the next `<`.
    """
    html = html[:most]
    end = html.rfind(">") + 1
    html = _DECLARATION.sub("", html[:end]) + html[end:].replace("<", "&lt;")
    end = html.rfind("-->") + 1
    return html[:end] + html[end:].replace("<!--", "&lt;!--")
