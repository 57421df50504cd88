"""Tests that a run takes, by what they need: a whole installation, the database of the run."""

import os
import re
from pathlib import Path
from zlib import crc32

import pytest

_TESTS = Path(__file__).parents[1]
# Fixtures that start a whole installation or a browser, and folders of such tests.
_WHOLE = {"live_komand", "chromium"}
_WHOLE_FOLDERS = {_TESTS / name for name in ("browser", "surfaces", "installed")}
# Folders of tests of what talks to other servers. Their rows are those of the tests of channels, runs and executions,
# which PostgreSQL runs.
_OF_OTHER_SERVERS = {
    _TESTS / "integration" / "sessions_app" / "platforms",
    _TESTS / "integration" / "agents_app" / "providers",
    _TESTS / "integration" / "agents_app" / "robots",
    _TESTS / "integration" / "tools_app" / "builtin",
}
# Other files with such tests name one of these; a fixture of another name that uses one is not enough.
_NAMES_WHOLE = re.compile(r"\b(whole|live_komand|chromium)\b")
_ALL_ONE_DATABASE = re.compile(r"^pytestmark = [^\n]*(\n[^\n]+)*?\bone_database\b", re.MULTILINE)
# Fixtures by which a test without the mark `django_db` reaches the database of the run.
_DATABASE = {"db", "transactional_db", "live_komand"}


def is_whole(item: pytest.Item) -> bool:
    """Return whether the test is of whole installations, so that no list of files has to name them."""
    found = item.get_closest_marker("whole") or _WHOLE & _fixtures(item) or _WHOLE_FOLDERS & set(item.path.parents)
    assert not found or _may_hold_whole(item.path), f"{item.path} has to name what makes its tests whole"
    return bool(found)


def uses_database(item: pytest.Item) -> bool:
    """Return whether the test reaches the database of the run. On PostgreSQL any other does what it does on SQLite."""
    return bool(
        item.get_closest_marker("django_db")
        or _DATABASE & _fixtures(item)
        or _WHOLE_FOLDERS & set(item.path.parents)
        or hasattr(getattr(item, "module", None), "on_postgres")
    )


def is_left_out(path: Path, marked: str, *, on_postgres: bool) -> bool:
    """Return whether a file or folder has no test that the run takes. marked: the expression of markers."""
    if path in _WHOLE_FOLDERS:
        return "not whole" in marked
    if path in _OF_OTHER_SERVERS:
        return on_postgres
    if not path.match("test_*.py"):
        return False
    if marked.startswith("whole and") and not _may_hold_whole(path):
        return True
    return "not one_database" in marked and _ALL_ONE_DATABASE.search(path.read_text()) is not None


def read_slice(variable: str, default: str = "1/1") -> tuple[int, int]:
    """Return the part that an environment variable names, such as 2/12, and the number of parts.

    default: if it is not set.
    """
    number, count = map(int, os.environ.get(variable, default).split("/"))
    return number, count


def is_in_slice(item: pytest.Item) -> bool:
    """Return whether the test is in the part of all tests that KOMAND_TEST_SLICE names."""
    number, count = read_slice("KOMAND_TEST_SLICE")
    return crc32(item.nodeid.encode()) % count == number - 1


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def _may_hold_whole(path: Path) -> bool:
    return bool(_WHOLE_FOLDERS & set(path.parents) or _NAMES_WHOLE.search(path.read_text()))
