"""`web_fetch`: reads one public web page as text, in parts if it is long."""

from typing import Any

from tools_app import conf
from tools_app.network import page_cache, page_text
from tools_app.network.fetch import Fetched, fetch
from tools_app.network.page_cache import Page
from tools_app.network.ssrf_guard import MAX_URL_CHARACTERS, check_url
from tools_app.parameters import boolean, integer, parameters, text
from tools_app.types import Effect, Reads, Risk, TargetKind, Tool, ToolContext, ToolSpec

_DEFAULT_CHARACTERS = 20_000
_MAX_CHARACTERS = 100_000
_QUOTE_CHARACTERS = 300
# The rest of the time limit is for converting the page to text.
_NETWORK_SHARE = 0.7


class WebFetch(Tool):
    spec = ToolSpec(
        name="web_fetch",
        description="Fetch a public web page as Markdown.",
        parameters=parameters(
            "url",
            url=text("", minLength=1, maxLength=MAX_URL_CHARACTERS),
            max_characters=integer(f"Default {_DEFAULT_CHARACTERS}.", 100, _MAX_CHARACTERS),
            offset=integer("From next_offset.", 0),
            links=boolean(""),
        ),
        effect=Effect.READ,
        risk=Risk.LOW,
        timeout_seconds=30,
        has_sources=True,
        targets={"url": TargetKind.URL},
        reads=Reads.OUTSIDE,
        sends=("url",),
    )

    def check(self, arguments: dict[str, Any]) -> None:
        check_url(arguments["url"], allowed_private=conf.private_fetch_targets())

    def run(self, arguments: dict[str, Any], context: ToolContext) -> Any:
        """Return {"url": after redirects, "status", "title", "text", "offset", "next_offset": or null, "characters": of
        the whole text, "truncated", "bytes": of the body as far as it was read, "links": if requested, "sources"}.

        {"url", "status", "redirect"} for a redirect to another host, which takes another call.
        """
        url = str(check_url(arguments["url"], allowed_private=conf.private_fetch_targets()).url)
        page = page_cache.find(context.agent_id, url)
        if page is None:
            seconds = context.timeout_seconds * _NETWORK_SHARE
            got = fetch(url, seconds=seconds, allowed_private=conf.private_fetch_targets())
            if got.redirect:
                return {"url": got.url, "status": got.status, "redirect": got.redirect}
            page = _page_of(got)
            if page.status == 200:
                page_cache.keep(context.agent_id, url, page)
        return _result(page, arguments)


def _page_of(got: Fetched) -> Page:
    content = page_text.read(got.body, media_type=got.media_type, charset=got.charset, url=got.url, is_cut=got.is_cut)
    return Page(got.url, got.status, content, len(got.body))


def _result(page: Page, arguments: dict[str, Any]) -> dict[str, Any]:
    offset, content = arguments.get("offset", 0), page.content
    text = content.text[offset : offset + arguments.get("max_characters", _DEFAULT_CHARACTERS)]
    end = offset + len(text)
    source = {"uri": page.url, "title": content.title or page.url, "quote": text[:_QUOTE_CHARACTERS], "offset": offset}
    links = [{"text": text, "url": address} for text, address in content.links] if arguments.get("links") else None
    return {
        "url": page.url,
        "status": page.status,
        "title": content.title,
        "text": text,
        "offset": offset,
        "next_offset": end if end < len(content.text) else None,
        "characters": len(content.text),
        "truncated": content.is_cut or end < len(content.text),
        "bytes": page.size_bytes,
        **({} if links is None else {"links": links}),
        "sources": [source],
    }
