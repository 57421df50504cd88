"""The allow-list that every rendered answer passes: the last defence against scripts in the page."""

import nh3

from sessions_app.surfaces.base.highlight import CLASSES

_BLOCKS = {"blockquote", "br", "button", "div", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "ul"}
_INLINE = {"a", "code", "del", "em", "s", "span", "strong", "sub", "sup"}
_TABLES = {"table", "tbody", "td", "th", "thead", "tr"}
_ATTRIBUTES = {"a": {"href"}, "div": {"aria-label"}, "ol": {"start"}, "span": {"aria-label"}}
_VALUES = {
    **{tag: {"dir": {"auto"}} for tag in ("blockquote", "h3", "h4", "h5", "h6", "ol", "p", "table", "ul")},
    "a": {"target": {"_blank"}},
    "button": {"type": {"button"}, "aria-pressed": {"false"}},
    "div": {"role": {"group"}, "tabindex": {"0"}},
    "pre": {"tabindex": {"0"}},
    "span": {"role": {"img"}},
}
_ALIGNED = {"align-left", "align-center", "align-right"}
_PAGE_CLASSES = {
    "a": {"image"},
    "button": {"copy-code", "wrap-code"},
    "div": {"code", "code-head", "math", "table"},
    "li": {"task"},
    "span": {"cited", "image", "math", "whereto", "task-done", "task-open"} | CLASSES,
    "td": _ALIGNED,
    "th": _ALIGNED,
}

_cleaner = nh3.Cleaner(
    tags=_BLOCKS | _INLINE | _TABLES,
    clean_content_tags={"script", "style"},
    attributes=_ATTRIBUTES,
    tag_attribute_values=_VALUES,
    allowed_classes=_PAGE_CLASSES,
    url_schemes={"http", "https", "mailto"},
    url_relative="deny",
    link_rel="noopener nofollow noreferrer",
    strip_comments=True,
)


def sanitised(html: str) -> str:
    """Return the HTML without tags, attributes, classes and URL schemes that the renderer does not use."""
    return _cleaner.clean(html)
