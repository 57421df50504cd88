"""Renders prompt templates with Jinja2 in its sandbox. Pure: templates come from a function of the caller.

Templates have conditions, loops and some filters, but no calls, assignments, macros and includes. Texts and loops are
limited at each step, so that no value grows by itself.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial, wraps
from itertools import islice
from typing import Any, Literal

from jinja2 import StrictUndefined, TemplateError, meta, nodes
from jinja2.filters import do_round
from jinja2.sandbox import ImmutableSandboxedEnvironment

from agents_app.prompt.system_prompt import PromptPart
from agents_app.prompt.template_format import REQUIRED, ModelSettings, Template, UnusableTemplate

LONGEST_RENDERED = 200_000  # characters
_MOST_TEMPLATES = 50  # of one prompt
_DEEPEST_LOOP = 2
_LONGEST_LOOP = 1000  # items
_MOST_STEPS = 2_000_000  # of one prompt: characters and items that filters read
_STEPS_OF_ITEM = 100  # of a loop, whose expressions may compare long values
_LARGEST_PARAMETERS = 20_000  # characters
_MOST_DIGITS = 30  # of `round`
_FILTERS = """
    abs capitalize count default dictsort first float int items last length list lower map max min reject rejectattr
    reverse select selectattr sort string sum title trim truncate unique upper wordcount
"""
_STATEMENTS = (nodes.Output, nodes.If, nodes.For)
# Of expressions and filters with values that do not fit.
_FAULTS = (
    TemplateError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_REFUSED = (nodes.Call, nodes.Add, nodes.Concat, nodes.Mul, nodes.Pow, nodes.Mod)


@dataclass(frozen=True)
class Rendered:
    """A rendered prompt.

    parts: the skills, then the template.
    settings: settings of all of them, the template's win.
    """

    parts: tuple[PromptPart, ...] = ()
    settings: ModelSettings = ModelSettings()


Find = Callable[[str], Template]


def expand(template: Template, find: Find) -> tuple[Template, ...]:
    """Return the skills of a template, depth first and each once, then the template itself.

    find: returns the template of a name, or raises. Raises UnusableTemplate for a cycle.
    """
    found: dict[str, Template] = {}

    def add(one: Template, path: tuple[str, ...]) -> None:
        if one.name in path:
            circle = " → ".join((*path[path.index(one.name) :], one.name))
            raise UnusableTemplate(template.name, f"its skills include each other in a circle: {circle}")
        if one.name in found:
            return
        for skill in one.skills:
            add(find(skill), (*path, one.name))
        found[one.name] = one
        if len(found) > _MOST_TEMPLATES:
            raise UnusableTemplate(template.name, f"it has more than {_MOST_TEMPLATES} skills")

    add(template, ())
    return tuple(found.values())


def declared(templates: Sequence[Template]) -> dict[str, Any]:
    """Return the parameters of expanded templates with their defaults. A parameter that any requires is required."""
    defaults: dict[str, Any] = {}
    for template in templates:
        for name, default in template.parameters.items():
            if defaults.get(name) is not REQUIRED:
                defaults[name] = default
    return defaults


def render(template: Template, find: Find, given: Mapping[str, Any]) -> Rendered:
    """Return the prompt of a template with these parameters. Raises UnusableTemplate, also for a missing parameter."""
    templates = expand(template, find)
    known = declared(templates)
    if unknown := [name for name in given if name not in known]:
        names = ", ".join(known) or "it has none"
        raise UnusableTemplate(template.name, f"there is no parameter {unknown[0]!r}. Parameters: {names}")
    if missing := [name for name, default in known.items() if default is REQUIRED and given.get(name) is None]:
        raise UnusableTemplate(template.name, f"it needs the parameter {', '.join(map(repr, missing))}")
    if len(str(dict(given))) > _LARGEST_PARAMETERS:
        raise UnusableTemplate(template.name, f"its parameters are longer than {_LARGEST_PARAMETERS:,} characters")
    settings, parts = ModelSettings(), []
    _steps.set(0)
    for one in templates:
        settings = _merged(settings, one.settings)
        kind = "template" if one is templates[-1] else "skill"
        own = {name: given.get(name, default) for name, default in one.parameters.items()}
        text = _text_of(one, own)
        parts.append(PromptPart(f"{kind} {one.name}", text))
    return Rendered(tuple(part for part in parts if part.text), settings)


def check(template: Template) -> None:
    """Check that the text of a template can be rendered at all. Raises UnusableTemplate."""
    _compiled(template)


def _merged(first: ModelSettings, last: ModelSettings) -> ModelSettings:
    given = {name: value for name, value in vars(last).items() if value not in ("", None)}
    return replace(first, **{**given, "sampling": {**first.sampling, **last.sampling}})


def _text_of(template: Template, values: Mapping[str, Any]) -> str:
    pieces, size = [], 0
    try:
        for piece in _environment.from_string(_compiled(template)).generate(values):
            size += len(piece)
            if size > LONGEST_RENDERED:
                raise UnusableTemplate(template.name, f"its text is longer than {LONGEST_RENDERED:,} characters")
            pieces.append(piece)
    except _FAULTS as error:
        raise UnusableTemplate(template.name, f"it cannot be rendered: {_sentence(error)}") from None
    return "".join(pieces).strip()


def _compiled(template: Template) -> nodes.Template:
    """Return the syntax tree of a template. Raises UnusableTemplate for what templates may not contain."""
    try:
        tree = _environment.parse(template.body)
        for node, depth in list(_nested(tree, 0)):
            if problem := _problem_of(node, depth):
                raise UnusableTemplate(template.name, f"line {node.lineno} of its text: {problem}")
            if isinstance(node, nodes.For):
                node.iter = nodes.Filter(node.iter, _LIMIT, [], [], None, None, lineno=node.lineno)
        tree.set_environment(_environment)
        used = meta.find_undeclared_variables(tree)
    except (TemplateError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        place = f"line {line} of its text: " if line else ""
        raise UnusableTemplate(template.name, place + _sentence(error)) from None
    if undeclared := sorted(used - template.parameters.keys()):
        raise UnusableTemplate(template.name, f"it uses {undeclared[0]!r}, which is not one of its parameters")
    return tree


def _problem_of(node: nodes.Node, depth: int) -> str:
    name = type(node).__name__.lower()
    if isinstance(node, nodes.Stmt) and not isinstance(node, _STATEMENTS):
        return f"`{name}` is not available; there are `if` and `for`"
    if isinstance(node, nodes.For) and (node.recursive or depth > _DEEPEST_LOOP):
        return f"loops are not recursive, and at most {_DEEPEST_LOOP} deep"
    if isinstance(node, _REFUSED):
        return f"`{name}` is not available in expressions"
    if isinstance(node, nodes.Filter) and node.name not in _environment.filters:
        return f"there is no filter {node.name!r}. Known: {', '.join(sorted(_environment.filters.keys() - {_LIMIT}))}"
    return ""


def _nested(node: nodes.Node, depth: int) -> Iterator[tuple[nodes.Node, int]]:
    """Yield each node below this one with the number of the loops that it is in, its own included."""
    for child in node.iter_child_nodes():
        inner = depth + isinstance(child, nodes.For)
        yield child, inner
        yield from _nested(child, inner)


def _sentence(error: BaseException) -> str:
    return str(error).rstrip(".") or type(error).__name__


def _limited(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter that refuses a text that is too long, before the next filter makes it longer.

    It refuses lists and objects, too, whose text would be too long: their items may be the same value many times. What
    it reads counts as steps.
    """

    @wraps(apply)  # with the marks by which Jinja passes its environment
    def limited(*args: Any, **kwargs: Any) -> Any:
        for given in args:
            _limit_size(given)
            _count_steps(len(given) if isinstance(given, str | list | tuple | dict) else 1)
        result = apply(*args, **kwargs)
        if isinstance(result, str) and len(result) > LONGEST_RENDERED:
            raise ValueError(f"a text is longer than {LONGEST_RENDERED:,} characters")
        return result

    return limited


def _limit_size(value: Any) -> Any:
    """Return the value. Raises ValueError for a list or an object whose text would be too long."""
    room, left = LONGEST_RENDERED, [value] if isinstance(value, list | tuple | dict) else []
    while left:
        item = left.pop()
        room -= len(item) if isinstance(item, str) else 1
        if room < 0:
            raise ValueError(f"a list or an object is longer than {LONGEST_RENDERED:,} characters")
        if isinstance(item, dict):
            left += [*item, *item.values()]
        elif isinstance(item, list | tuple):
            left += item
    return value


def _round(value: float, precision: int = 0, method: Literal["common", "ceil", "floor"] = "common") -> float:
    """Round a number as Jinja does, which computes ten to the power of the precision."""
    if abs(precision) > _MOST_DIGITS:
        raise ValueError(f"a precision is a number from -{_MOST_DIGITS} to {_MOST_DIGITS}")
    return do_round(value, precision, method)


def _join(value: Iterable[Any], separator: str = "") -> str:
    texts = [str(each) for each in value]
    if sum(map(len, texts)) + len(texts) * len(str(separator)) > LONGEST_RENDERED:
        raise ValueError(f"a joined text is longer than {LONGEST_RENDERED:,} characters")
    return str(separator).join(texts)


def _count_steps(count: int) -> None:
    """Raise ValueError once a prompt takes too many steps: short texts and loops alone do not limit its time."""
    _steps.set(_steps.get() + count)
    if _steps.get() > _MOST_STEPS:
        raise ValueError(f"it takes more than {_MOST_STEPS:,} steps; make its loops shorter")


def _limit_loop(value: Iterable[Any]) -> list[Any]:
    items = list(islice(value, _LONGEST_LOOP + 1))
    if len(items) > _LONGEST_LOOP:
        raise ValueError(f"a loop has more than {_LONGEST_LOOP:,} items")
    _count_steps(_STEPS_OF_ITEM * len(items))
    return items


_steps: ContextVar[int] = ContextVar("steps", default=0)
_LIMIT = " limit"  # the name of a filter that no template can write


def _make_environment() -> ImmutableSandboxedEnvironment:
    """Return an environment without globals, with the filters above. An unknown name is an error, not an empty text."""
    made = ImmutableSandboxedEnvironment(
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        cache_size=0,
        finalize=_limit_size,
    )
    made.globals.clear()
    own = {"join": _join, "round": _round, "tojson": partial(json.dumps, ensure_ascii=False)}
    given = {name: made.filters[name] for name in _FILTERS.split()} | own
    made.filters = {name: _limited(apply) for name, apply in given.items()} | {_LIMIT: _limit_loop}
    return made


_environment = _make_environment()
