"""Front matter of prompt templates: what it sets, and what is refused with its place."""

import pytest

from agents_app.prompt.template_format import REQUIRED, UnusableTemplate, parse

WHOLE = """---
description: Answers customers.
parameters:
  company: null
  tone: friendly
skills: [style]
model: small
temperature: 0.2
max_tokens: 500
top_p: 0.9
stop: END
robot_name: clerk
tools: [echo]
mcp: none
---

You work for {{ company }}.
"""


def test_front_matter_sets_parameters_skills_and_the_model() -> None:
    template = parse("support", WHOLE)
    assert template.body == "You work for {{ company }}." and template.description == "Answers customers."
    assert template.parameters == {"company": REQUIRED, "tone": "friendly"} and template.skills == ("style",)
    assert (template.robot_name, template.tools, template.mcp) == ("clerk", ("echo",), ())
    assert template.settings.model == "small" and template.settings.to_options() == {
        "temperature": 0.2,
        "max_output_tokens": 500,
        "sampling": {"top_p": 0.9, "stop": ["END"]},
    }


@pytest.mark.parametrize("text", ["Just text.", "Just text.\n---\nand more", "---\n---\nJust text."])
def test_front_matter_may_be_missing_or_empty(text: str) -> None:
    template = parse("plain", text)
    assert template.body.startswith("Just text.") and template.settings.to_options() == {} and template.tools is None


@pytest.mark.parametrize(
    ("front", "problem"),
    [
        ("temprature: 1", "there is no key 'temprature'"),
        ("temperature: hot", "`temperature` must be a number from 0 to 2"),
        ("temperature: 3", "`temperature` must be a number from 0 to 2"),
        ("max_tokens: 0", "`max_tokens` must be a whole number"),
        ("skills: [1]", "`skills` must be a list of names"),
        ("parameters: [a]", "`parameters` must be an object"),
        ("parameters: {a-b: 1}", "'a-b' cannot be the name of a parameter"),
        ("description: [a", "line 2: its front matter is not YAML"),
        ("description: &a x\nmodel: *a", "aliases (`*name`) are not supported"),
        ('description: !!int ""', "not YAML: a value does not match its tag"),
        ("description: !!bool maybe", "not YAML: a value does not match its tag"),
        ("description: !!timestamp soon", "not YAML: a value does not match its tag"),
        ("- a", "must have lines such as"),
    ],
)
def test_a_fault_of_the_front_matter_is_named(front: str, problem: str) -> None:
    with pytest.raises(UnusableTemplate, match="Template support: ") as refused:
        parse("support", f"---\n{front}\n---\ntext")
    assert problem in refused.value.message


def test_a_name_and_an_open_front_matter_are_refused() -> None:
    for name in ("../etc", "A", "", "a b"):
        with pytest.raises(UnusableTemplate, match="lower-case letters"):
            parse(name, "text")
    with pytest.raises(UnusableTemplate, match="no closing line"):
        parse("support", "---\nmodel: m\n")
    with pytest.raises(UnusableTemplate, match="longer than"):
        parse("support", "a" * 200_001)
