"""Random Markdown in the style of models."""

from hypothesis import strategies as st

_WORDS = st.sampled_from(
    ["some words", "**bold** text", "a `piece` of code", "https://example.org/x", "1 < 2 & 3", "*"]
)
_BLOCKS = st.sampled_from(
    [
        "# Heading\n",
        "## Another\n\n",
        "- one\n- two\n",
        "- [x] done\n- [ ] not\n\n",
        "1. first\n\n2. second\n\n",
        "> quoted\n> more\n\n",
        "> lazy\ngoes on\n\n",
        "```python\nx = 1\n\ny = 2\n```\n",
        "~~~\n```\n~~~\n\n",
        "---\n",
        "| a | b |\n|---|--:|\n| 1 | 2 |\n\n",
        "    indented\n\n    code\n\n",
        "Title\n===\n\n",
        "- outer\n  - inner\n\n    words\n",
        "* * *\n",
        "+ plus\n",
        "<div>raw</div>\n\n",
        "\n",
        "\n\n",
        "a | b\n",
        "```\nnever closed\n",
        "#",
        "-",
        "- ",
        "\t",
        "\\[\nx_1 * y\n= 2\n- z\n\\]\n",
        "$$\na_1\n$$\n\n",
        "\\[ never closed\n",
        "words \\(a*b*c\\) and $x_1$ ",
        "\\\n",
    ]
)
_LINES = st.builds(lambda words, end: words + end, _WORDS, st.sampled_from(["\n", "\n\n", " ", "", "\r\n"]))


def markdown_texts() -> st.SearchStrategy[str]:
    return st.lists(_BLOCKS | _LINES, max_size=14).map("".join)
