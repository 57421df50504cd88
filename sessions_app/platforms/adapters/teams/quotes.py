"""Quotes in activities of Teams: as entities, or in the HTML of the message as older clients send them. Pure."""

import re
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from typing import Any

from audit_app.kernel.html_markup import closed
from sessions_app.platforms.messages import Quoted

# Stands in the text for an entity.
PLACEHOLDER = re.compile(r"<quoted\s+messageId=\"[^\"<>]*\"\s*/>\s*", re.IGNORECASE)
_SCHEMA = "http://schema.skype.com/"
_TEXTS = ("preview", "copy")
_MAX_HTML_CHARACTERS = 200_000  # messages of people are far shorter


def read_quotes(activity: Mapping[str, Any], known: set[str]) -> Iterator[Quoted]:
    """Yield the quotes of a message. known: ids of us and of the sender."""
    entities = [item for item in activity.get("entities") or () if isinstance(item, dict)]
    found = [item["quotedReply"] for item in entities if item.get("type") == "quotedReply" and "quotedReply" in item]
    for quote in found:
        is_known = str(quote.get("senderId", "")) in known
        author = "" if is_known else str(quote.get("senderName") or "")
        yield Quoted(str(quote.get("preview") or ""), author, is_known=is_known)
    for item in () if found else activity.get("attachments") or ():
        if item.get("contentType") == "text/html" and _SCHEMA in str(item.get("content")):
            yield from _Blockquotes.read(item["content"], known)


class _Blockquotes(HTMLParser):
    """The blockquotes of a message by which Teams shows a quoted or forwarded one."""

    def __init__(self) -> None:
        super().__init__()
        self.quotes: list[dict[str, str]] = []
        self._part = ""  # of the open blockquote, to which text belongs
        self._is_open = False

    @classmethod
    def read(cls, html: str, known: set[str]) -> Iterator[Quoted]:
        parser = cls()
        parser.feed(closed(html, _MAX_HTML_CHARACTERS))
        for quote in parser.quotes:
            is_known = quote["id"] in known
            author = "" if is_known else quote["author"].strip()
            yield Quoted(quote["text"].strip(), author, is_known=is_known, is_forward=quote["kind"] == "Forward")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "blockquote" and values.get("itemtype", "").startswith(_SCHEMA):
            self._is_open, self._part = True, ""
            self.quotes.append({"kind": values["itemtype"].removeprefix(_SCHEMA), "author": "", "text": "", "id": ""})
        elif self._is_open and values.get("itemprop") == "mri":
            self._part, self.quotes[-1]["id"] = "author", values.get("itemid", "")
        elif self._is_open and values.get("itemprop") in _TEXTS:
            self._part = "text"

    def handle_endtag(self, tag: str) -> None:
        if tag == "blockquote":
            self._is_open = False
        if tag in ("blockquote", "p", "strong"):
            self._part = ""

    def handle_data(self, data: str) -> None:
        if self._is_open and self._part:
            self.quotes[-1][self._part] += data
