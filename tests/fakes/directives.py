"""Directives for the fake model server: `[[name=value …]]` in the last user message, or a line of a script.

[[tokens=100 rate=30]]                     that many tokens, that many a second (0: as fast as can be)
[[text="Hello there"]]                     this text instead of tok0 tok1 …; [[reasoning="Hm."]] before it
[[stamp]]                                  tokens that say when they were written: `@<monotonic milliseconds> `
[[first=0.5]] [[wait=2]]                   seconds before the first token; before the headers
[[status=429 retry_after=3 code=x]]        an HTTP error; message="…" for its words
[[cut=20]] [[hang=20]] [[badjson=20]]      after 20 chunks: break off, fall silent, send broken JSON; also error=20
[[hold=20]]                                after 20 chunks: wait for `server.go_on()`
[[nofinish]] [[nodone]] [[nousage]]        leave out the finish reason, [DONE], the usage; finish=length sets a reason
[[tool=calculator args={"expression":"1+1"}]] [[tools=[["echo",{"text":"a"}],["echo",{"text":"b"}]]]]
[[loop]] [[unknown_tool]] [[broken_args]]  tool calls for ever; of a tool that is not there; with broken arguments
[[same_index]] [[no_ids]] [[split=3]]      tool calls as sloppy servers send them; arguments in pieces of 3
[[json]] [[html]] [[crlf]] [[comments]] [[huge=9000000]] [[refuse_usage]]   odd servers
[[refuse_schema]]                          a server without `response_format`
[[refuse_parts]]                           400 for a message with images, audio or files
"""

import json
from dataclasses import dataclass, field
from typing import Any, get_type_hints

_JSON = json.JSONDecoder()


@dataclass
class Directives:
    """The directives for one answer. Counts are of chunks, times in seconds; None: never."""

    tokens: int = 20
    rate: float = 0.0
    text: str = ""
    reasoning: str = ""
    stamp: bool = False
    first: float = 0.0
    wait: float = 0.0
    status: int = 200
    retry_after: str = ""
    code: str = ""
    message: str = "This is a fault made on purpose."
    cut: int | None = None
    hang: int | None = None
    hold: int | None = None
    badjson: int | None = None
    error: int | None = None
    finish: str = ""
    nofinish: bool = False
    nodone: bool = False
    nousage: bool = False
    tool: str = ""
    args: Any = field(default_factory=dict)
    tools: list[Any] = field(default_factory=list)
    loop: bool = False
    unknown_tool: bool = False
    broken_args: bool = False
    same_index: bool = False
    no_ids: bool = False
    split: int = 0
    json: bool = False
    html: bool = False
    crlf: bool = False
    comments: bool = False
    huge: int = 0
    refuse_usage: bool = False
    refuse_schema: bool = False
    refuse_parts: bool = False

    def calls(self) -> list[tuple[str, str]]:
        """The tool calls to make: (name, raw arguments)."""
        if self.unknown_tool:
            return [("no_such_tool", "{}")]
        if self.broken_args:
            return [(self.tool or "calculator", '{"expression": "17*')]
        wanted = self.tools or ([[self.tool, self.args]] if self.tool else [])
        if self.loop and not wanted:
            wanted = [["echo", {"text": "again"}]]
        return [(name, args if isinstance(args, str) else json.dumps(args)) for name, args in wanted]


_TYPES = get_type_hints(Directives)


def read_directives(text: str, defaults: dict[str, Any]) -> Directives:
    """Return the directives in a text, with these defaults. An unknown name is an error, so that no typo passes."""
    values = dict(defaults)
    position = text.find("[[")
    while position >= 0:
        position = _read_block(text, position + 2, values)
        position = text.find("[[", position)
    return Directives(**values)


def _read_block(text: str, position: int, values: dict[str, Any]) -> int:
    """Read `name=value name …]]` from `position`; return the position of its end."""
    while not text.startswith("]]", position):
        if text[position] == " ":
            position += 1
            continue
        start = position
        while text[position] not in "= ]":
            position += 1
        name = text[start:position]
        value: Any = True
        if text[position] == "=":
            value, position = _read_value(text, position + 1)
        values[name] = _fitting(name, value)
    return position + 2


def _read_value(text: str, position: int) -> tuple[Any, int]:
    if text[position] in '{["':
        return _JSON.raw_decode(text, position)
    end = position
    while text[end] not in " ]":
        end += 1
    return text[position:end], end


def _fitting(name: str, value: Any) -> Any:
    if name not in _TYPES:
        raise ValueError(f"unknown directive {name!r}")
    kind = _TYPES[name]
    if kind in (int, int | None):
        return int(value)
    if kind is float:
        return float(value)
    return value
