"""The version, the headings of the changelog and the tags agree, and the changelog can be read (docs/releasing.md)."""

import re
import subprocess
from datetime import date

import komand
from tests.architecture.source import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
HEADINGS = re.findall(r"^## (.*)$", TEXT, re.MULTILINE)
PARTS = [part.strip() for part in re.split("^## .*$", TEXT, flags=re.MULTILINE)[1:]]
LONGEST_ENTRY = 130


def releases() -> dict[str, date]:
    """Return the day of each released version, newest first."""
    parts = [re.fullmatch(r"(\d+\.\d+\.\d+) — (\d{4}-\d\d-\d\d)", heading) for heading in HEADINGS[1:]]
    return {part[1]: date.fromisoformat(part[2]) for part in parts if part}


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_the_newest_heading_is_the_version() -> None:
    days = releases()
    assert HEADINGS[0] == "Unreleased" and len(days) == len(HEADINGS) - 1
    assert next(iter(days)) == komand.__version__
    numbers = [tuple(map(int, version.split("."))) for version in days]
    assert numbers == sorted(numbers, reverse=True) and list(days.values()) == sorted(days.values(), reverse=True)


def test_tags_have_the_version_and_the_day_of_their_heading() -> None:
    """Check the tags of this clone; an archive without `.git` has none."""
    days = releases()
    for tag in git("tag", "--list", "v*").split() if (ROOT / ".git").exists() else []:
        version = tag.removeprefix("v")
        assert days.get(version) == date.fromisoformat(git("log", "-1", "--format=%cs", tag).strip()), tag
        assert f'"{version}"' in git("show", f"{tag}:komand/__init__.py"), tag


def test_an_entry_is_one_line_below_the_heading_of_an_area() -> None:
    for part in PARTS:
        lines = [line for line in part.splitlines() if line]
        assert not [line for line in lines if not line.startswith(("- ", "### ")) or len(line) > LONGEST_ENTRY]


def test_each_release_but_the_first_begins_with_a_block_for_operators() -> None:
    assert not [part for part in PARTS[:-1] if part and not part.startswith("### Before you upgrade\n")]
