"""The script of `<komand-chat>`: modules, styles, icons and patterns of the pages as one file for other sites."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from posixpath import join, normpath

from django.contrib.staticfiles import finders
from django.template.loader import render_to_string

from audit_app.kernel.json_text import as_json

ENTRY = "js/component/element.js"
_BASE = ("css/base.css", "css/markdown.css", "css/code.css")
_STYLES = {
    "agent": (
        *_BASE,
        "css/chat.css",
        "css/conversation.css",
        "css/work.css",
        "css/approvals.css",
        "css/files.css",
        "css/versions.css",
    ),
    "visitor": (*_BASE, "css/chat.css", "css/visitor.css"),
}
_OWN_STYLES = "css/component.css"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "(\.[^"]+)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:class|function|const|let) (\w+))", re.MULTILINE)
_LINE_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
_BLANK = re.compile(r"\n{2,}")
_CSS_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
# Rules that mean nothing in a shadow tree.
_PAGE_RULES = re.compile(r"(?:@font-face|@view-transition|::view-transition[^{]*|html)\s*\{[^}]*\}")
_VARIABLE = re.compile(r"(--[a-z-]+):\s*([^;{}]+?)\s*(?=[;}])")
# First: whatever the site's styles make of our element is not inherited.
_RESET = ".kc{all:initial}"
_NARROW = "@media (max-width: 760px)"

# Names of elements on the site's page would hide those of `document`: its methods are taken from the prototype.
_HEAD = """(() => {
"use strict";
const page = globalThis.document;
const document = new Proxy({}, { get(_, name) {
  const value = Reflect.get(Document.prototype, name, page);
  return typeof value === "function" ? value.bind(page) : value;
} });
"""
_FOOT = "})();\n"


@cache
def script() -> bytes:
    """Return the script. It contains nothing about this installation: the address is that of the script itself."""
    order: list[str] = []
    _collect(ENTRY, order)
    names = {module: f"module{place}" for place, module in enumerate(order)}
    values = as_json(_assets())
    parts = [_HEAD, f"const ASSETS = {values};\n", *(_wrapped(module, names) for module in order), _FOOT]
    return "".join(parts).encode()


def _read(name: str) -> str:
    path = finders.find(name)
    if not isinstance(path, str):
        raise FileNotFoundError(name)
    return Path(path).read_text()


def _collect(module: str, order: list[str]) -> None:
    """Add a module behind those that it imports."""
    for imported in _imports(module):
        if imported not in order:
            _collect(imported, order)
    order.append(module)


def _imports(module: str) -> Iterator[str]:
    for found in _IMPORT.finditer(_read(module)):
        yield normpath(join(module, "..", found[2]))


def _wrapped(module: str, names: dict[str, str]) -> str:
    """Return a module as a constant with what it exports."""

    def imported(found: re.Match[str]) -> str:
        bound = found[1].replace(" as ", ": ")
        return f"const {{{bound}}} = {names[normpath(join(module, '..', found[2]))]};\n"

    source = _IMPORT.sub(imported, _read(module))
    exports = ", ".join(_EXPORT.findall(source))
    source = _BLANK.sub("\n", _INDENT.sub("", _LINE_COMMENT.sub("", _EXPORT.sub("", source))))
    return f"const {names[module]} = (() => {{\n{source}\nreturn {{{exports}}};\n}})();\n"


def _assets() -> dict[str, object]:
    parts = {name: render_to_string(f"chat/_{name}.html") for name in ("icons", "patterns")}
    styles = {
        name: _RESET + "".join(_as_shadow_css(_read(file)) for file in (*files, _OWN_STYLES))
        for name, files in _STYLES.items()
    }
    return {**{name: re.sub(r"\s*\n\s*", "", html) for name, html in parts.items()}, "styles": styles}


def _as_shadow_css(css: str) -> str:
    """Return a style sheet of a page for the shadow tree, where `.kc` stands for the page."""
    css = _PAGE_RULES.sub("", _CSS_COMMENT.sub("", css))
    css = re.sub(r"(^|[},\s]):root\b", r"\1.kc", css)
    css = re.sub(r"(^|[}\s])body(?=[\s{])", r"\1.kc", css).replace(_NARROW, "@container (max-width: 760px)")
    css = re.sub(r"(?<=\.kc)( \{[^}]*\})", lambda block: _VARIABLE.sub(_themed, block[0]), css)
    return re.sub(r"\s*([{};,])\s*", r"\1", re.sub(r"\s+", " ", css)).strip()


def _themed(variable: re.Match[str]) -> str:
    """Return a variable that the site can set: `--komand-accent` for `--accent`."""
    return f"{variable[1]}: var(--komand{variable[1][1:]}, {variable[2]})"
