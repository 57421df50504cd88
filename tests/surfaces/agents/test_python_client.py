"""The real `vertesia-client` of Python on agent runs. Its own models check the answers."""

from pathlib import Path

import pytest

from tests.support.live_server import LiveKomand
from tests.surfaces import pypi

pytestmark = pytest.mark.npm


def test_every_call_of_agent_runs_is_answered(live_komand: LiveKomand) -> None:
    script = Path(__file__).with_name("python_client.py")
    found = pypi.run_script(pypi.foreign(), script, {"url": live_komand.url, "key": live_komand.api_key})
    assert "391" in found.pop("texts")[-2] and "more" in found.pop("more")[-1]
    assert found.pop("stream") > 5
    assert found == {
        "created": "running",
        "signalled": "success",
        "posted": True,
        "files": ["files/note.txt"],
        "content": ["first", "second"],
        "got": True,
        "details": True,
        "listed": True,
        "found": True,
        "children": 0,
        "plan": {"plan": []},
        "forked": True,
        "terminated": {"message": "The run was terminated.", "reason": None},
        "restarted": True,
    }
