"""The script of `<komand-chat>`: one small file with all that it imports, whose styles stay inside of it."""

import gzip
import re

from django.test import Client

from sessions_app.surfaces.webchat.component_script import _as_shadow_css, script

MOST_BYTES = 60_000


def test_the_script_is_one_small_file() -> None:
    response = Client().get("/webchat/komand-chat.js", headers={"Accept-Encoding": "gzip"})
    assert len(response.content) <= MOST_BYTES
    assert gzip.decompress(response.content) == script() == Client().get("/webchat/komand-chat.js").content
    assert not re.search(rb"^(import|export) ", script(), re.MULTILINE)
    assert response.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    again = Client().get("/webchat/komand-chat.js", headers={"If-None-Match": response.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_it_has_no_styles_or_handlers_that_a_strict_policy_refuses() -> None:
    text = script().decode()
    assert not re.search(r"<[a-z][^>]* (style|on\w+)=", text)
    assert "eval(" not in text and "new Function" not in text


def test_styles_of_the_page_are_those_of_the_shadow_tree() -> None:
    css = """
    @font-face { font-family: A; src: url("a.woff2") }
    :root { --accent: light-dark(#000000, #ffffff); color-scheme: light dark } /* a comment */
    :root[data-theme="dark"] { color-scheme: dark }
    html { height: 100% }
    body { margin: 0 }
    .body-part { margin: 1px }
    @media (max-width: 760px) { .a { margin: 0 } }
    """
    assert _as_shadow_css(css) == (
        ".kc{--accent: var(--komand-accent,light-dark(#000000,#ffffff));color-scheme: light dark}"
        '.kc[data-theme="dark"]{color-scheme: dark}.kc{margin: 0}.body-part{margin: 1px}'
        "@container (max-width: 760px){.a{margin: 0}}"
    )
