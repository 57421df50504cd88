"""Rendering of prompt templates: parameters, skills, and a sandbox that neither runs code nor lets texts grow."""

import time
from typing import Any

import pytest

from agents_app.prompt.system_prompt import PromptPart
from agents_app.prompt.template_format import Template, UnusableTemplate, parse
from agents_app.prompt.template_sandbox import check, render


def templates(**texts: str) -> dict[str, Template]:
    return {name: parse(name, text) for name, text in texts.items()}


def text_of(body: str, **given: Any) -> str:
    front = "".join(f"  {name}: null\n" for name in given)
    template = parse("t", f"---\nparameters:\n{front}---\n{body}" if given else body)
    return "".join(part.text for part in render(template, {}.__getitem__, given).parts)


def test_parameters_loops_and_filters_are_rendered() -> None:
    assert text_of("Hello {{ name|upper }}.", name="Ada") == "Hello ADA."
    assert text_of("{% for x in items %}\n- {{ x }}\n{% else %}\nnone\n{% endfor %}", items=["a", "b"]) == "- a\n- b"
    assert text_of("{{ items|join(', ') }} {{ items|tojson }}", items=["<a>", "ö"]) == '<a>, ö ["<a>", "ö"]'
    assert text_of("{% if age > 17 %}adult{% endif %}", age=18) == "adult"
    assert text_of("<b> & {{ x }}", x="<i>") == "<b> & <i>"


def test_skills_come_first_depth_first_and_once() -> None:
    found = templates(
        main="---\nskills: [style, law]\ntemperature: 0.1\n---\nMain.",
        style="---\nskills: [base]\nmodel: small\ntemperature: 0.9\n---\nStyle.",
        law="---\nskills: [base]\ntop_p: 0.5\n---\nLaw.",
        base="Base.",
    )
    rendered = render(found["main"], found.__getitem__, {})
    assert rendered.parts == (
        PromptPart("skill base", "Base."),
        PromptPart("skill style", "Style."),
        PromptPart("skill law", "Law."),
        PromptPart("template main", "Main."),
    )
    settings = rendered.settings
    assert (settings.model, settings.temperature, settings.sampling) == ("small", 0.1, {"top_p": 0.5})


def test_a_circle_of_skills_is_named() -> None:
    found = templates(a="---\nskills: [b]\n---\n", b="---\nskills: [c]\n---\n", c="---\nskills: [b]\n---\n")
    with pytest.raises(UnusableTemplate, match="in a circle: b → c → b"):
        render(found["a"], found.__getitem__, {})


def test_missing_and_unknown_parameters_are_named() -> None:
    found = templates(
        main="---\nparameters: {name: null, tone: dry}\nskills: [skill]\n---\n{{ name }} {{ tone }}",
        skill="---\nparameters: {place: null, tone: warm}\n---\n{{ place }} {{ tone }}",
    )
    main, find = found["main"], found.__getitem__
    texts = [part.text for part in render(main, find, {"name": "Ada", "place": "Rome"}).parts]
    assert texts == ["Rome warm", "Ada dry"]  # each template has its own default
    with pytest.raises(UnusableTemplate, match="it needs the parameter 'place', 'name'"):
        render(main, find, {"place": None})
    with pytest.raises(UnusableTemplate, match="no parameter 'nme'. Parameters: place, tone, name"):
        render(main, find, {"nme": "x"})


@pytest.mark.parametrize(
    "body",
    [
        "{{ ''.__class__ }}",
        "{{ x.upper() }}",
        "{{ x['__class__'].__mro__ }}",
        "{{ x|attr('__class__') }}",
        "{{ x|map(attribute='__class__')|first.__mro__ }}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% set a = 1 %}",
        "{{ range(3) }}",
        "{{ x * 3 }}",
        "{{ x ~ x }}",
        "{{ '%9999d' % 1 }}",
        "{% for a in x recursive %}{% endfor %}",
        "{% for a in x %}{% for b in x %}{% for c in x %}{% endfor %}{% endfor %}{% endfor %}",
        "{{ unknown }}",
        "{{ x is unknown }}",
        "{{ x",
        "{{ x|nothing }}",
        "{{ [x]|map('pprint')|join }}",
        "{{ x|dictsort }}",
        "{{ x|truncate(1) }}",
    ],
)
def test_what_templates_may_not_do_is_refused(body: str) -> None:
    with pytest.raises(UnusableTemplate):
        text_of(body, x="abc")


@pytest.mark.parametrize(
    "body",
    [
        f"{{{{ x{'|tojson' * 60} }}}}",
        "{{ x|list|join(x|list|join(x|list|join(x))) }}",
        "{% for a in x|list %}{% endfor %}",
        "{% for a in y %}{% for b in y %}{{ a }}{{ x }}{% endfor %}{% endfor %}",
        "{{ 1|round(3000000, 'ceil') }}",
        "{% for a in y %}{% for b in y %}{% if y|sort|join|length == 1 %}{% endif %}{% endfor %}{% endfor %}",
        "{% for a in y %}{% for b in y %}{% if y == z %}{% endif %}{% endfor %}{% endfor %}",
        "{{ 1|round(-3000000) }}",
        f"{{{{ [{'y, ' * 900}]|sum(start=[])|length }}}}",
        f"{{{{ [{'y, ' * 900}] }}}}",
        f"{{{{ [{'y, ' * 900}]|string|length }}}}",
        f"{{% for a in [[{'y, ' * 900}]] %}}"
        f"{{% for b in [[{'a, ' * 900}]] %}}{{{{ b|tojson|length }}}}{{% endfor %}}{{% endfor %}}",
    ],
)
def test_texts_and_loops_cannot_grow(body: str) -> None:
    began = time.process_time()
    with pytest.raises(UnusableTemplate, match="longer than|more than|a precision"):
        text_of(body, x='"' * 5000, y=["abc"] * 900, z=["abc"] * 900)
    assert time.process_time() - began < 5


def test_a_template_is_checked_without_its_parameters() -> None:
    check(parse("t", "---\nparameters: {x: null}\n---\n{{ x|upper }}{% for y in x %}{{ y }}{% endfor %}"))
    with pytest.raises(UnusableTemplate, match="it uses 'y', which is not one of its parameters"):
        check(parse("t", "---\nparameters: {x: null}\n---\n{{ y }}"))
    with pytest.raises(UnusableTemplate, match="line 2 of its text: there is no filter 'shout'"):
        check(parse("t", "fine\n{{ x|shout }}"))
