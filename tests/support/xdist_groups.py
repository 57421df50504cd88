"""Groups of tests that run on the same pytest worker, so that an expensive fixture is set up once.

Tests in a browser are one group, those of starting and stopping another, and other tests with a live installation a
third, which balances the workers; so are the scenarios of each kind of installation, the tests of a file with a module
fixture, and the pure ones of a file, which take less time than to hand them out one by one. All others go to any free
worker. (`xdist_group` marks would do the same, but no longer reach the scheduler with pytest 9.2.)
"""

from functools import cache
from pathlib import Path

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

_ROOT = Path(__file__).parents[2]
_INSTALLATIONS = ("up", "deployed")  # the names of tests/installed/installation.py, whose import takes seconds


class SharingScheduler(LoadScopeScheduling):
    """A scheduler that starts with the largest group, and forgets groups that have ended.

    Otherwise it would count all tests of a worker again at each test.
    """

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        nodeid = self.registered_collections[node][item_index]
        group = self._split_scope(nodeid)
        tests = self.assigned_work[node][group]
        tests[nodeid] = True
        if all(tests.values()):
            del self.assigned_work[node][group]
        self._reschedule(node)

    def _split_scope(self, nodeid: str) -> str:
        path, _, name = nodeid.partition("::")
        if path.startswith("tests/installed/"):
            return installation_of(name)
        return group_of(path) or nodeid


def installation_of(name: str) -> str:
    """Return the kind of installation that a scenario runs against. name: of the test, with its parameters.

    The place of the kind among the parameters depends on which other tests are collected.
    """
    parameters = name.rpartition("[")[2].rstrip("]").split("-")
    return next(kind for kind in _INSTALLATIONS if kind in parameters)


@cache
def group_of(path: str) -> str:
    """Return the group of a test file by its path and text; empty if each test stands alone. path: relative."""
    if path.startswith("tests/browser/"):
        return "browser"
    if path == "tests/integration/komand/test_supervisor.py":
        return "starts"
    if path.startswith("tests/architecture/"):
        return "architecture"  # these parse all of the code
    if path.startswith("tests/unit/"):
        return path
    text = (_ROOT / path).read_text()
    if "live_komand" in text:
        return "live"
    return path if 'scope="module"' in text else ""
