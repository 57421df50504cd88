"""Which tests run on the same pytest worker, so that what is dear to set up is set up once.

Tests in a browser are one group, those of starting and stopping another, the rest with a live installation a third, so
that the workers have as much to do; tests of a file with a fixture of its own for all of them are a group too. All
others go to whoever is free.
(`xdist_group` marks would say the same, but no longer arrive at the scheduler with pytest 9.2.)
"""

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling

_ROOT = Path(__file__).parents[2]


class SharingScheduler(LoadScopeScheduling):
    """The group with the most tests is begun first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0]) or nodeid


@cache
def group_of(path: str) -> str:
    """By the file's path, relative to the project, and text; empty: each test is its own."""
    if path.startswith("tests/browser/"):
        return "browser"
    if path.endswith("/test_up.py"):
        return "up"
    if path.startswith("tests/architecture/"):
        return "architecture"  # which parse all of the code
    text = (_ROOT / path).read_text()
    if "live_komand" in text:
        return "live"
    return path if 'scope="module"' in text else ""
