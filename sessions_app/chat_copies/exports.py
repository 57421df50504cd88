"""Chats as files: Markdown for people, JSON for programs. Pure."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from sessions_app.chat_copies.chat_copy import (
    ChatCopy,
    CopiedCall,
    CopiedQuestion,
    CopiedText,
    CopiedTurn,
    CopiedWorkstream,
)

FORMATS = ("markdown", "json")
MEDIA_TYPES = {"markdown": "text/markdown; charset=utf-8", "json": "application/json"}
_SUFFIXES = {"markdown": "md", "json": "json"}
_JSON_VERSION = 1
_LONGEST_NAME = 60


def filename_of(copy: ChatCopy, file_format: str) -> str:
    """Return a name for the file, of letters and digits of the title."""
    words = "-".join(re.findall(r"\w+", copy.title.lower()))[:_LONGEST_NAME].strip("-_")
    return f"{words or 'chat'}.{_SUFFIXES[file_format]}"


def write(copy: ChatCopy, file_format: str) -> str:
    """Return the text of the file."""
    return as_markdown(copy) if file_format == "markdown" else json.dumps(as_json(copy), ensure_ascii=False, indent=2)


def as_markdown(copy: ChatCopy) -> str:
    """Return the chat as Markdown. Tool calls and tasks of workstreams are folded, where a viewer can fold."""
    lines = [f"# {_one_line(copy.title)}", "", f"{copy.agent}, copied {_time(copy.at)}", ""]
    if copy.has_more:
        lines += ["*Older messages are left out.*", ""]
    for turn in copy.turns:
        lines += _markdown_of(turn, copy.agent)
    if copy.files:
        lines += [
            "## Files of this chat",
            "",
            *(f"- {_code(file.path)}, {file.size_bytes:,} bytes" for file in copy.files),
        ]
    return "\n".join(lines).rstrip() + "\n"


def as_json(copy: ChatCopy) -> dict[str, Any]:
    """Return the chat as a JSON object. Its `version` changes with fields that are removed or mean something else."""
    return {
        "format": "komand-chat",
        "version": _JSON_VERSION,
        "title": copy.title,
        "agent": copy.agent,
        "copiedAt": copy.at.isoformat(),
        "hasMore": copy.has_more,
        "turns": [_json_of(turn) for turn in copy.turns],
        "files": [{"path": file.path, "sizeBytes": file.size_bytes} for file in copy.files],
    }


def _json_of(turn: CopiedTurn) -> dict[str, Any]:
    return {
        "at": turn.at.isoformat(),
        "message": {"text": turn.question, "files": list(turn.files)},
        "answer": [{"kind": part.kind, **_JSON_PARTS[part.kind](part)} for part in turn.parts],
        "problem": turn.problem or None,
        "sources": turn.sources.splitlines(),
    }


_JSON_PARTS: dict[str, Callable[[Any], dict[str, Any]]] = {
    CopiedText.kind: lambda part: {"text": part.text},
    CopiedCall.kind: lambda part: {
        "tool": part.tool,
        "arguments": part.arguments,
        "state": part.state,
        "output": part.output,
        "error": part.error or None,
    },
    CopiedQuestion.kind: lambda part: {"questions": list(part.questions), "answer": part.answer or None},
    CopiedWorkstream.kind: lambda part: {
        "name": part.name,
        "agentId": part.agent_id,
        "state": part.state,
        "task": part.task,
        "result": part.result or None,
        "error": part.error or None,
    },
}


def _markdown_of(turn: CopiedTurn, agent: str) -> Iterator[str]:
    if turn.question or turn.files:
        yield from (f"## You, {_time(turn.at)}", "")
        if turn.question:
            yield from (turn.question, "")
        if turn.files:
            yield from (f"Files: {', '.join(map(_code, turn.files))}", "")
    if turn.parts or turn.problem:
        yield from (f"## {_one_line(agent)}", "")
    for part in turn.parts:
        yield from _MARKDOWN_PARTS[part.kind](part)
        yield ""
    if turn.sources:
        yield from ("Sources:", "", *(f"- {line}" for line in turn.sources.splitlines()), "")
    if turn.problem:
        yield from (f"*{_one_line(turn.problem)}*", "")


def _call(part: CopiedCall) -> Iterator[str]:
    yield from _folded(f"Tool call {part.tool}: {part.state.lower()}", _call_body(part))


def _call_body(part: CopiedCall) -> Iterator[str]:
    yield from ("Arguments:", "", _fenced(part.arguments))
    if part.output is not None:
        yield from ("", "Result:", "", _fenced(part.output))
    if part.error:
        yield from ("", "Error:", "", _fenced(part.error))


def _question(part: CopiedQuestion) -> Iterator[str]:
    for question in part.questions:
        yield f"**Question:** {_one_line(question)}"
        yield ""
    yield f"**Answer:** {part.answer or 'none'}"


def _workstream(part: CopiedWorkstream) -> Iterator[str]:
    yield f"### Workstream {_one_line(part.name)}: {part.state}"
    yield ""
    yield from _folded(f"Task for {part.agent_id}", iter([_fenced(part.task)]))
    if part.result or part.error:
        yield from ("", part.result or part.error)


_MARKDOWN_PARTS: dict[str, Callable[[Any], Iterator[str]]] = {
    CopiedText.kind: lambda part: iter([part.text]),
    CopiedCall.kind: _call,
    CopiedQuestion.kind: _question,
    CopiedWorkstream.kind: _workstream,
}


def _folded(title: str, body: Iterator[str]) -> Iterator[str]:
    safe = title.replace("&", "&amp;").replace("<", "&lt;")
    yield from ("<details>", f"<summary>{safe}</summary>", "", *body, "", "</details>")


def _fenced(value: Any) -> str:
    """Return a block of code that its content cannot end."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{'' if isinstance(value, str) else 'json'}\n{text}\n{fence}"


def _code(name: str) -> str:
    return f"`{_one_line(name).replace('`', '’')}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
