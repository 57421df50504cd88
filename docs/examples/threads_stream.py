"""Send a message to an agent over the Threads API and stream its answer, with the standard library only.

    python threads_stream.py http://127.0.0.1:8000 sk-user-… "what is 17*23?"

It never hangs: a connection without data for longer than the server's keep-alive interval is closed, a broken stream is
resumed, and `[DONE]` ends it.
"""

import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

IDLE_SECONDS = 40.0  # the server sends a comment every 15
MOST_TRIES = 8


class Threads:
    """A client of the Threads API. url: without a trailing slash; key: an API key."""

    def __init__(self, url: str, key: str, idle_seconds: float = IDLE_SECONDS) -> None:
        self.url, self.key, self.idle_seconds = url, key, idle_seconds

    def ask(self, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Send a message to a new thread. Yield the events of the answer: (name, data)."""
        thread = self.call("POST", "/v1/threads", {"message_for_title": text[:4096]})
        self.call("POST", f"/v1/threads/{thread['id']}/user_message", {"input_text": text})
        return self.follow(thread["id"])

    def follow(self, thread_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the events of the current answer, each once, to its end."""
        last_id, tries = "", 0
        while True:
            try:
                for entry_id, name, data in self.events(thread_id, last_id):
                    if data == "[DONE]":
                        return
                    last_id, tries = entry_id or last_id, 0
                    yield name, json.loads(data)
            except (OSError, urllib.error.URLError) as error:
                if isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429:
                    raise
            tries += 1
            if tries > MOST_TRIES:
                raise TimeoutError("the stream could not be resumed")
            time.sleep(min(0.25 * 2**tries, 10))

    def events(self, thread_id: str, last_id: str) -> Iterator[tuple[str, str, str]]:
        """Yield (entry id, name, data) of one connection. Raises OSError if it breaks or sends nothing."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        with self.open("GET", f"/v1/threads/{thread_id}/stream", headers=headers) as answer:
            fields: dict[str, str] = {}
            for raw in answer:
                line = raw.decode().rstrip("\r\n")
                if line and not line.startswith(":"):
                    name, _, value = line.partition(":")
                    fields[name] = value.removeprefix(" ")
                elif not line and fields:
                    yield fields.get("id", ""), fields.get("event", ""), fields.get("data", "")
                    fields = {}

    def call(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        with self.open(method, path, json.dumps(body).encode()) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def open(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Any:
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", **(headers or {})}
        request = urllib.request.Request(self.url + path, body, sent, method=method)  # noqa: S310
        return urllib.request.urlopen(request, timeout=self.idle_seconds)  # noqa: S310


class Answer:
    """The texts received so far. `text_start` empties its part: after a crash a text may begin again."""

    def __init__(self) -> None:
        self.parts: dict[str, str] = {}

    def see(self, name: str, data: dict[str, Any]) -> None:
        if name == "text_start":
            self.parts[data["part_id"]] = ""
        elif name == "text_delta":
            self.parts[data["part_id"]] = self.parts.get(data["part_id"], "") + data["delta"]

    @property
    def text(self) -> str:
        return "\n\n".join(self.parts.values())


def main(url: str, key: str, question: str) -> None:
    answer = Answer()
    for name, data in Threads(url, key).ask(question):
        answer.see(name, data)
        if name == "text_delta":
            sys.stdout.write(data["delta"])
            sys.stdout.flush()
        elif name == "step":
            sys.stdout.write(f"\n[{data['name']}: {data['status']}]\n")
        elif name == "error":
            sys.stdout.write(f"\n{data['error']}\n")
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:4])
