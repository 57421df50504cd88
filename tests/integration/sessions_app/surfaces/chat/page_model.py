"""A model of the page in Python: applies frames by the rules of static/js/chat, for texts and cards."""

from typing import Any


class MissingTextError(AssertionError):
    """A piece of text does not follow the shown text."""


class Part:
    """The text of one step: finished blocks up to `done`, and open text."""

    def __init__(self) -> None:
        self.done = 0
        self.html = ""
        self.open = ""

    @property
    def length(self) -> int:
        return self.done + len(self.open)

    def take(self, act: dict[str, Any]) -> None:
        for start, end, html in act["blocks"]:
            if end <= self.done:
                continue
            if start != self.done:
                raise MissingTextError(f"a block begins at {start}, shown is {self.done}")
            self.open = self.open[end - self.done :]
            self.html, self.done = self.html + html, end
        length = self.length
        if act["offset"] > length:
            raise MissingTextError(f"text begins at {act['offset']}, shown is {length}")
        self.open += act["text"][length - act["offset"] :]


class PageModel:
    """The page. cursor: with which it would resume. `shown` compares two pages."""

    def __init__(self, cursor: str = "") -> None:
        self.cursor = cursor
        self.turn_views: list[str] = []
        self.open: set[str] = set()
        self.parts: dict[str, dict[str, Part | str]] = {}
        self.answers: dict[str, str] = {}

    def apply(self, message: dict[str, Any]) -> None:
        for act in message.get("acts", ()):
            self._act(act)
        self.cursor = message.get("cursor", self.cursor)

    @property
    def shown(self) -> Any:
        texts = {
            run: {name: (part.html, part.open) if isinstance(part, Part) else part for name, part in parts.items()}
            for run, parts in self.parts.items()
        }
        return self.turn_views, self.open, texts, self.answers

    def lengths(self, run: str) -> dict[int, int]:
        """Return the lengths of the shown texts of an open run, by step."""
        parts = self.parts[run].items()
        return {int(name.removeprefix("text ")): part.length for name, part in parts if isinstance(part, Part)}

    def _act(self, act: dict[str, Any]) -> None:
        run = act.get("run", "")
        if act["do"] == "turn" and run not in self.turn_views:
            self.turn_views.append(run)
            self.open.add(run)
            self.parts[run] = {}
        if run not in self.open:
            return
        parts = self.parts[run]
        match act["do"]:
            case "text":
                part = parts.setdefault(f"text {act['step']}", Part())
                assert isinstance(part, Part)
                part.take(act)
            case "forget":
                parts[f"text {act['step']}"] = Part()
            case "call":
                parts.setdefault(f"call {act['call']}", act["html"])
            case "answer":
                self.open.discard(run)
                self.parts[run] = {}
                self.answers[run] = act["html"]
