"""A site whose pages take long, for calls of tools that are cut while they are made."""

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from uuid import uuid4


class SlowSite(ThreadingHTTPServer):
    """A site on this machine, until the end of the block.

    seconds: how long a page takes.
    slow: how many of the first requests take so long; None for all.
    count: requests so far.
    leave: set to send every page at once.
    """

    def __init__(self, seconds: float, slow: int | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.seconds, self.slow, self.count = seconds, slow, 0
        self.leave = threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave.set()
        self.shutdown()
        super().__exit__(kind, error, trace)

    @property
    def authority(self) -> str:
        return f"127.0.0.1:{self.server_port}"

    @property
    def fresh_url(self) -> str:
        """The address of a page that is not cached."""
        return f"http://{self.authority}/{uuid4()}"


class _Page(BaseHTTPRequestHandler):
    server: SlowSite

    def do_GET(self) -> None:
        self.server.count += 1
        if self.server.slow is None or self.server.count <= self.server.slow:
            self.server.leave.wait(self.server.seconds)
        with suppress(OSError):
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(b"here it is")

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""
