"""Links to pages of the installation in messages of channels."""

import pytest

from agents_app.providers.kinds.demo.texts import INTRODUCTION, NOT_UNDERSTOOD
from sessions_app.platforms.rendering.renderer import with_absolute_links

ADDRESS = "https://komand.example"


@pytest.mark.parametrize(
    ("markdown", "with_one", "without"),
    [
        ("[Take the tour](/tour).", "[Take the tour](https://komand.example/tour).", "Take the tour."),
        ("*a* **[b](/c?d=1#e)**", "*a* **[b](https://komand.example/c?d=1#e)**", "*a* **b**"),
        ("> [a](/b)\n- [c](/d)", "> [a](https://komand.example/b)\n- [c](https://komand.example/d)", "> a\n- c"),
    ],
)
def test_a_path_gets_the_address_or_loses_its_link(markdown: str, with_one: str, without: str) -> None:
    assert with_absolute_links(markdown, ADDRESS) == with_one and with_absolute_links(markdown, "") == without


@pytest.mark.parametrize(
    "markdown",
    [
        "[a](https://example.org/b) and [c](//example.org/d), [e](#f) [g](h)",
        "Write `[a](/b)` for a link.",
        "```md\n[a](/b)\n```",
        "![a](/b)",
        "\\[a](/b)",
        "no link /tour",
    ],
)
def test_all_else_stays(markdown: str) -> None:
    assert with_absolute_links(markdown, ADDRESS) == markdown == with_absolute_links(markdown, "")


def test_the_demo_names_no_page_without_an_address() -> None:
    for text in (INTRODUCTION, NOT_UNDERSTOOD):
        assert "](/" not in with_absolute_links(text, "") and f"({ADDRESS}/tour)" in with_absolute_links(text, ADDRESS)
