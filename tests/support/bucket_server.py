"""A server that speaks the protocol of S3, with a bucket in a folder. It verifies signatures, as Amazon's does."""

import os
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from tests.support.live_server import wait_for

_KEYS = {"access": "key-of-tests", "secret": "secret-of-the-bucket-of-tests"}
_BUCKET = "komand-files"


class BucketServer:
    """The server, at one address of this machine from its first start on. files: the objects of its bucket."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder, self._port = folder, port
        self.files = folder / _BUCKET
        self.files.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def settings(self) -> dict[str, str]:
        """The settings of an installation with this bucket."""
        return {
            "KOMAND_S3_BUCKET": _BUCKET,
            "KOMAND_S3_ENDPOINT": f"http://127.0.0.1:{self._port}",
            "KOMAND_S3_REGION": "us-east-1",
            "KOMAND_S3_PREFIX": "one/installation",
            "KOMAND_S3_ACCESS_KEY": _KEYS["access"],
            "KOMAND_S3_SECRET_KEY": _KEYS["secret"],
        }

    @property
    def own_files(self) -> Path:
        """The folder of the objects that an installation with these settings has."""
        return self.files / self.settings["KOMAND_S3_PREFIX"]

    def start(self) -> None:
        """Start the server, unless it runs."""
        if self._process and self._process.poll() is None:
            return
        command = [sys.executable, "-m", "nanio", "serve", "--data-dir", str(self._folder), "--host", "127.0.0.1"]
        keys = {"NANIO_ACCESS_KEY": _KEYS["access"], "NANIO_SECRET_KEY": _KEYS["secret"]}
        self._process = subprocess.Popen(
            [*command, "--port", str(self._port), "--log-level", "error", "--no-access-log"], env={**os.environ, **keys}
        )
        wait_for(self._answers, 60, "the server of the bucket")

    def stop(self) -> None:
        """End the server. Its files stay for the next start."""
        if self._process:
            self._process.kill()
            self._process.wait(60)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: Any) -> None:
        self.stop()

    def _answers(self) -> bool:
        with closing(socket.socket()) as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0
