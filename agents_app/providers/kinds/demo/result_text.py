"""Describes tool results in Markdown."""

import json
from typing import Any

from agents_app.prompt.tool_output_markers import unmark
from audit_app.kernel.shorten import one_line
from tools_app.types import without_receipt

_MAX_QUOTED = 600


def describe(tool: str, arguments: str, content: str) -> str:
    """Return a list item.

    arguments: raw JSON of the call.
    content: JSON of the result, or `[Status] error`.
    """
    content = without_receipt(unmark(content))
    sent, found = _value(arguments), _value(content)
    sent = sent if isinstance(sent, dict) else {}
    if content.startswith("[") and not isinstance(found, list):
        return f"- **{tool}** failed. {content}"
    if isinstance(found, dict):
        match tool:
            case "calculator" if "result" in found:
                return f"- `{sent.get('expression', '?')}` is **{found['result']}**."
            case "date_time" if found.keys() >= {"timezone", "time", "weekday", "date"}:
                place = str(found["timezone"]).rpartition("/")[2].replace("_", " ")
                return f"- In {place} it is **{found['time']}** on {found['weekday']}, {found['date']}."
            case "echo" if "text" in found:
                return f"- The echo returned:{_quoted(str(found['text']))}"
            case "web_fetch":
                return _page(sent, found)
    text = content if isinstance(found, str) else json.dumps(found, indent=2, ensure_ascii=False)
    return f"- **{tool}** returned:\n\n```json\n{text[:_MAX_QUOTED]}\n```"


def _page(sent: dict[str, Any], found: dict[str, Any]) -> str:
    url = str(found.get("url") or sent.get("url") or "")
    title = str(found.get("title") or url)
    text = next((str(found[name]) for name in ("text", "content", "markdown") if found.get(name)), "")
    cited = "".join(f" [{source['cite']}]" for source in found.get("sources", ()) if "cite" in source)
    return f"- The page [{title.replace('[', '(').replace(']', ')')}]({url}) starts with{cited}:{_quoted(text)}"


def _quoted(text: str) -> str:
    flat = one_line(text, _MAX_QUOTED)
    return f"\n\n  > {flat}\n" if flat else " nothing."


def _value(text: str) -> Any:
    """Return the JSON value, or the text itself if it is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return text
