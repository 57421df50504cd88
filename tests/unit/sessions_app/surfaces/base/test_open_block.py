"""The open block of a growing text is rendered without markup that is not complete yet."""

import re
from html import unescape
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.surfaces.base.live_text import LiveText, RenderBudget
from sessions_app.surfaces.base.markdown import render
from sessions_app.surfaces.base.open_block import TIP, render_open
from tests.support.cpu_cost import costs_less_than
from tests.unit.sessions_app.surfaces.base.test_markdown import HOSTILE, _assert_safe
from tests.unit.sessions_app.surfaces.markdown_texts import markdown_texts


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain wor", f"<p>plain wor{TIP}</p>"),
        ("some **bo", f"<p>some <strong>bo{TIP}</strong></p>"),
        ("some **bold*", f"<p>some <strong>bold{TIP}</strong></p>"),
        ("*a **b", f"<p><em>a <strong>b{TIP}</strong></em></p>"),
        ("2*3 = 6", f"<p>2*3 = 6{TIP}</p>"),
        ("a `co*de", f"<p>a <code>co*de{TIP}</code></p>"),
        ("a [link](https://exam", f"<p>a link{TIP}</p>"),
        ("a \\(x_1", f'<p>a <span class="math">\\(x_1{TIP}</span></p>'),
        ("\\[\nx_1", f'<div class="math">\\[\nx_1{TIP}</div>'),
        ("words\n", "<p>words</p>"),
        ("words\n-", "<p>words</p>"),
        ("## Ti", f"<h4>Ti{TIP}</h4>"),
        ("- a\n- ", "<ul><li>a</li></ul>"),
        ("1", ""),
        ("#", ""),
        ("**", ""),
        ("| a | b", ""),
        ("| a | b |\n|--", ""),
        ("known [0190f5e2-7b", f"<p>known {TIP}</p>"),
        ("water is H~2", f"<p>water is H{TIP}</p>"),
        ("water is H~2~", f"<p>water is H{TIP}</p>"),
        ("water is H~2~O", f"<p>water is H<sub>2</sub>O{TIP}</p>"),
        ("mass: mc^2 and", f"<p>mass: mc^2 and{TIP}</p>"),
    ],
)
def test_unfinished_markup_is_completed_or_held_back(text: str, shown: str) -> None:
    html = render_open(text, {}).html.replace(' dir="auto"', "")
    assert re.sub(r">\n+<", "><", html.strip()) == shown


def test_a_table_grows_by_whole_rows() -> None:
    text = "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n"
    rows = [render_open(text[:end], {}).html.count("<tr>") for end in range(1, len(text) + 1)]
    assert rows == sorted(rows) and set(rows) == {0, 1, 2, 3}


def test_code_is_shown_from_its_first_line_on() -> None:
    assert render_open("```py", {}).html == ""
    block = render_open("```py\nx = 1", {})
    assert block.is_code and block.takes(" * [2]") and not block.takes("\n")
    assert TIP in block.html and "c-err" not in block.html


@pytest.mark.parametrize("tail", ["\n", "*", "`", "[", "|", "<", "\\", "$", "_", "https://"])
def test_markup_cannot_be_appended_at_the_tip(tail: str) -> None:
    assert render_open("words", {}).takes(" more words, and more.")
    assert not render_open("words", {}).takes(f" more{tail}")


@given(markdown_texts())
def test_a_rendering_shows_nothing_but_its_text(text: str) -> None:
    block = render_open(text, {})
    assert text.startswith(block.source.rstrip("\n"))
    assert block.html.count(TIP) <= 1 and "\ue000" not in block.html


@given(
    st.lists(st.sampled_from([*HOSTILE, "\n", "\n\n", "`", "**", "> ", "- ", "| ", "\ue000"]), max_size=8).map("".join)
)
def test_hostile_text_is_inert_while_it_is_open(text: str) -> None:
    _assert_safe(render_open(text, {}).html.replace(TIP, ""))


def test_a_complete_text_looks_as_it_will_when_it_is_finished() -> None:
    text = "Some **bold**, `code` and a [link](https://example.org/a) here"
    assert unescape(render_open(text, {}).html.replace(TIP, "")) == unescape(render(text))


def test_plain_text_is_not_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rendered: list[str] = []

    def note(text: str, env: Any) -> Any:
        rendered.append(text)
        return render_open(text, env)

    monkeypatch.setattr("sessions_app.surfaces.base.live_text.render_open", note)
    live, text = LiveText(), "words without markup " * 20 + "and **bold** ones"
    for at in range(0, len(text), 5):
        live.feed(at, text[at : at + 5])
        live.update_draft()
    assert len(rendered) < 8


def test_a_budget_limits_the_time_for_open_blocks() -> None:
    now = [0.0]
    budget = RenderBudget(share=0.2, burst=0.1, clock=lambda: now[0])
    budget.spend(0.3)
    assert not budget.allows()
    now[0] += 0.9
    assert not budget.allows()
    now[0] += 0.2
    assert budget.allows()
    live = LiveText(budget)
    budget.spend(1)
    live.feed(0, "some **text")
    live.update_draft()
    assert live.draft is None


@pytest.mark.parametrize("unit", ["*a ", "`", "``a", "[", "[a](", "\\(", "| a |\n", "- a\n", "> "])
def test_a_long_open_block_is_rendered_in_bounded_time(unit: str) -> None:
    with costs_less_than(3):
        render_open((unit * 20_000)[:20_000], {})
