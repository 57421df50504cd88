"""Web units that are replaced under load: each request that was sent is answered."""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.chaos.clients import Browser, Watching
from tests.chaos.web_load import Load
from tests.fakes.model_server import ModelServer
from tests.support.changed_settings import RATES
from tests.support.live_server import ROOT, wait_for
from tests.support.units import Units, own_valkey

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]

ONE = ("komand-web",)
TWO = ("komand-web", "komand-web@2")
ROUNDS = 5


@pytest.mark.parametrize("webs", [ONE, TWO], ids=["one", "two"])
def test_no_request_is_cut_however_often_web_units_are_replaced(
    tmp_path: Path, model_server: ModelServer, webs: tuple[str, ...]
) -> None:
    with own_valkey(tmp_path) as valkey:
        given = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "fake", **RATES}
        settings = {"KOMAND_DATA_DIR": str(tmp_path / "data"), "REDIS_URL": f"unix://{valkey}?db=0", **given}
        units = Units(tmp_path, settings, (*webs, "komand-runs@1"))
        try:
            password = json.loads(units.start(ROOT).splitlines()[-1])["login"]["password"]
            viewer = Viewer(units.url, password)
            with Load(units.port, viewer.token) as load:
                wait_for(lambda: len(load.outcome.answers) >= 6, 120, "answers to each kind of request")
                for _ in range(ROUNDS):
                    for name in webs:
                        units.replace_one(name, ROOT)
                        viewer.wait_text()
            units.check()
            viewer.stop()
        finally:
            units.stop()
    sys.stdout.write(f"\n{len(webs)} web units: {load.outcome}; a viewer without text: {viewer.longest:.1f} s\n")
    assert load.outcome.cuts == []
    # A call that would wait for longer than a process takes to end is told that it restarts.
    wrong = {key: count for key, count in load.outcome.answers.items() if key[1] >= 300 and key[1] != 504}
    assert wrong == {}


class Viewer:
    """A page that watches one long answer. longest: the longest time without new text of it."""

    def __init__(self, url: str, password: str) -> None:
        self.longest = 0.0
        self._at = 0.0
        who = {"email": "admin@localhost", "password": password}
        self.token: str = httpx2.post(f"{url}/api/auth/login", json=who, timeout=60).json()["data"]["token"]
        komand: Any = SimpleNamespace(url=url, password=password)
        browser = Browser(komand)
        session_id, cookie = browser.send(None, "[[tokens=3000 rate=10]]", uuid4()), browser.cookie
        browser.close()
        self._watching = Watching(komand, session_id, cookie, self._see).start()
        self.wait_text()

    def stop(self) -> None:
        self._watching.stop()

    def wait_text(self) -> None:
        since = time.monotonic()
        wait_for(lambda: self._at > since, 120, "text of the answer")

    def _see(self, act: dict[str, Any]) -> None:
        if act["do"] == "text":
            now = time.monotonic()
            self.longest = max(self.longest, now - (self._at or now))
            self._at = now
