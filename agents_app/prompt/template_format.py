"""The format of prompt templates: Markdown with YAML front matter. Pure."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agents_app.yaml_documents import LONGEST_TEMPLATE, InvalidYaml, load
from audit_app.kernel.errors import InvalidInput

NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,119}")
REQUIRED = object()  # the default of a parameter without one
_FENCE = re.compile(r"\A---[ \t]*\r?\n(.*?)(?:\r?\n)?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
_PARAMETER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,59}")


class UnusableTemplate(InvalidInput):
    """A template that cannot be read or rendered. The message names the template and the place."""

    code = "invalid_template"

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"Template {name}: {problem}.")


@dataclass(frozen=True)
class ModelSettings:
    """Settings of model calls. None and empty: as the agent, or the model, has them by itself.

    sampling: top_p, presence_penalty, frequency_penalty and stop, as far as they are set.
    """

    model: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    sampling: Mapping[str, Any] = field(default_factory=dict)

    def to_options(self) -> dict[str, Any]:
        """Return the settings that `RunOptions` has, as stored with a run."""
        given = {"temperature": self.temperature, "max_output_tokens": self.max_tokens, "sampling": dict(self.sampling)}
        return {name: value for name, value in given.items() if value not in (None, {})}


@dataclass(frozen=True)
class Template:
    """A prompt template.

    parameters: default of each parameter; REQUIRED if it has none
    skills: names of the templates whose text precedes its own
    robot_name, tools, mcp: for robots, see `robots.robot_setup`; None: not given
    body: its text, with the tags of Jinja
    """

    name: str
    body: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    skills: tuple[str, ...] = ()
    settings: ModelSettings = ModelSettings()
    robot_name: str = ""
    tools: tuple[str, ...] | None = None
    mcp: tuple[str, ...] | None = None


def parse(name: str, text: str) -> Template:
    """Return the template of a text. Raises UnusableTemplate for front matter that is not as documented."""
    if not NAME.fullmatch(name):
        raise UnusableTemplate(repr(name[:120]), "a name may only have lower-case letters, digits, `-` and `_`")
    if len(text) > LONGEST_TEMPLATE:
        raise UnusableTemplate(name, f"it is longer than {LONGEST_TEMPLATE:,} characters")
    fence = _FENCE.match(text)
    if fence is None:
        if text.startswith("---"):
            raise UnusableTemplate(name, "its front matter has no closing line `---`")
        return Template(name, text.strip())
    given = _front_matter(name, fence[1])
    values = {key: _KEYS[key](name, key, value) for key, value in given.items()}
    sampling = {key: values.pop(key) for key in _SAMPLING if values.get(key) is not None}
    settings = {key: values.pop(key) for key in ("model", "temperature", "max_tokens") if key in values}
    return Template(name, text[fence.end() :].strip(), settings=ModelSettings(**settings, sampling=sampling), **values)


def _front_matter(name: str, text: str) -> dict[str, Any]:
    try:
        given = load(text)
    except InvalidYaml as error:
        place = f"line {error.line + 1}: " if error.line else ""
        raise UnusableTemplate(name, f"{place}its front matter is not YAML: {error}") from None
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise UnusableTemplate(name, "its front matter must have lines such as `description: …`")
    if unknown := [key for key in given if key not in _KEYS]:
        raise UnusableTemplate(name, f"there is no key {unknown[0]!r}. Known: {', '.join(_KEYS)}")
    return given


def _text(name: str, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise UnusableTemplate(name, f"`{key}` must be a text")
    return value


def _names(name: str, key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UnusableTemplate(name, f"`{key}` must be a list of names")
    return tuple(value)


def _scope(name: str, key: str, value: Any) -> tuple[str, ...] | None:
    if value in (None, "inherit"):
        return None
    return () if value == "none" else _names(name, key, value)


def _parameters(name: str, key: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UnusableTemplate(
            name, "`parameters` must be an object: a name and its default, or null if it is required"
        )
    for parameter in value:
        if not isinstance(parameter, str) or not _PARAMETER.fullmatch(parameter):
            raise UnusableTemplate(name, f"{parameter!r} cannot be the name of a parameter")
    return {parameter: REQUIRED if default is None else default for parameter, default in value.items()}


def _between(least: float, most: float) -> Callable[[str, str, Any], float | None]:
    def read(name: str, key: str, value: Any) -> float | None:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise UnusableTemplate(name, f"`{key}` must be a number from {least:g} to {most:g}")
        return value

    return read


def _max_tokens(name: str, key: str, value: Any) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise UnusableTemplate(name, "`max_tokens` must be a whole number from 1")
    return value


def _stop(name: str, key: str, value: Any) -> list[str] | None:
    return None if value is None else list(_names(name, key, value))


_SAMPLING: dict[str, Callable[[str, str, Any], Any]] = {
    "top_p": _between(0, 1),
    "presence_penalty": _between(-2, 2),
    "frequency_penalty": _between(-2, 2),
    "stop": _stop,
}
_KEYS: dict[str, Callable[[str, str, Any], Any]] = {
    "description": _text,
    "parameters": _parameters,
    "skills": _names,
    "model": _text,
    "temperature": _between(0, 2),
    "max_tokens": _max_tokens,
    **_SAMPLING,
    "robot_name": _text,
    "tools": _scope,
    "mcp": _scope,
}
