"""The documentation matches the code: examples, tables, paths, settings."""

import inspect
import re
import tomllib
from pathlib import Path
from uuid import uuid4

import pytest
from django.conf import settings
from django.utils.module_loading import import_string

from agents_app.providers.base import RETRYABLE_BY_CODE
from sessions_app.platforms.registry import channels
from tests.architecture.exemptions import problems
from tools_app import schema
from tools_app.types import Tool, ToolContext, ToolError

DOCS = Path(settings.BASE_DIR, "docs")
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("channels/*.md")])
# Files that the reader of a page makes.
EXAMPLES = {"test_acme.py"}


def test_the_example_tool_works_as_shown():
    [code] = re.findall(r"```python\n(.*?)```", (DOCS / "adding-a-tool.md").read_text(), re.DOTALL)
    shown: dict = {}
    exec("\n".join(line.removeprefix("   ") for line in code.splitlines()), shown)
    tool: Tool = shown["WordCount"]()
    context = ToolContext(uuid4(), uuid4(), uuid4(), "default", "user:1", "key", 10)
    schema.check_spec(tool.spec)
    schema.check_arguments({"text": "three short words"}, tool.spec.parameters)
    assert tool.run({"text": "three short words"}, context) == {"words": 3}
    with pytest.raises(ToolError):
        tool.run({"text": " "}, context)


def test_the_table_of_provider_errors_is_complete():
    rows = re.findall(
        r"^\| `(model_\w+)` \|.*\| (yes|no) \|$", (DOCS / "adding-a-provider.md").read_text(), re.MULTILINE
    )
    assert {code: answer == "yes" for code, answer in rows} == RETRYABLE_BY_CODE


def test_the_table_of_browser_tests_names_each_file():
    table = (DOCS / "browser-tests.md").read_text()
    files = [f"tests/browser/{path.name}" for path in (DOCS.parent / "tests/browser").glob("test_*.py")]
    assert files and not [file for file in files if f"`{file}`" not in table]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_that_a_page_links_to_exist(page):
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert not [link for link in links if not (page.parent / link).exists()]


def test_files_that_the_pages_name_exist_except_for_those_of_examples():
    named = re.compile(
        r"`((?:komand|agents_app|tools_app|audit_app|sessions_app|tests|docs|deploy|static|templates)/[\w./-]+\.\w+)`"
    )
    missing = [
        (Path(path).name, f"{page.name}: {path}")
        for page in PAGES
        for path in named.findall(page.read_text())
        if not (DOCS.parent / path).exists()
    ]
    assert not problems(missing, EXAMPLES)


@pytest.mark.parametrize(
    "page", [*PAGES, DOCS.parent / "README.md", DOCS.parent / "deploy" / "README.md"], ids=lambda page: page.name
)
def test_headings_that_a_page_links_to_exist(page):
    links = re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text())
    assert not [link for link in links if link[1] not in _anchors((page.parent / link[0]) if link[0] else page)]


def _anchors(page: Path) -> set[str]:
    """Return the anchors of a page, of its headings and of its tags."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings} | set(
        re.findall(r'id="([^"]+)"', text)
    )


def test_the_packages_for_openid_connect_are_those_of_the_extra():
    wanted = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]["oidc"]
    named = " ".join(f"'{package}'" for package in wanted)
    assert f"pip install {named}" in (DOCS / "login.md").read_text()


def test_the_diff_of_a_field_fits_the_code():
    """Check that the files have the lines that the diff keeps or removes, so that it can be followed."""
    blocks = re.findall(r"```diff\n(.*?)```", (DOCS / "changing.md").read_text(), re.DOTALL)
    assert len(blocks) >= 8
    for block in blocks:
        before, _, *lines = [line.removeprefix("   ") for line in block.splitlines()]
        if before != "--- /dev/null":
            present = (DOCS.parent / before.removeprefix("--- a/")).read_text().splitlines()
            gone = [line for line in lines if line[:1] in (" ", "-") and line[1:] not in present]
            assert not gone, f"{before[6:]} changed: write its diff in docs/changing.md anew, without the lines {gone}"


def test_names_on_the_page_of_changes_exist():
    names = re.findall(r"`((?:audit|tools|agents|sessions)_app(?:\.\w+)+)`", (DOCS / "changing.md").read_text())
    assert names and all(import_string(name) for name in names)


def test_settings_that_the_pages_name_are_real():
    text = "".join((DOCS / name).read_text() for name in ("adding-a-tool.md", "adding-a-provider.md"))
    assert {name for name in re.findall(r"`(KOMAND_\w+)`", text) if not hasattr(settings, name)} == set()
    assert all(import_string(path) for path in settings.KOMAND_TOOLS)


def test_pages_of_channels_have_the_set_up_guide_of_the_admin():
    for slug in channels.names():
        page, folder = DOCS / "channels" / f"{slug}.md", Path(inspect.getfile(channels.get(slug))).parent
        guides = [path.read_text() for path in folder.glob("set_up*.md")]
        is_shown = not page.exists() or (guides and all(guide in page.read_text() for guide in guides))
        assert is_shown, f"docs/channels/{slug}.md lacks the text of {folder}/set_up*.md, with its line `---`"
