"""Runs the clients pysignalr and signalrcore: `python_clients.py '{"client", "url", "key", "text"}'`.

Sends a message to the agent `default`, then makes a call that fails. Prints the events, the result and the error.
"""

import asyncio
import json
import sys
import threading
from typing import Any

from pysignalr.client import SignalRClient  # type: ignore[import-not-found, unused-ignore]
from signalrcore.hub_connection_builder import HubConnectionBuilder  # type: ignore[import-not-found, unused-ignore]

NAMES = ("AgentTyping", "ReceiveToken", "ReceiveMessage", "ToolStarted", "ToolCompleted", "RunFailed")
SECONDS = 40


class Seen:
    """The events of a connection, and the answers to its calls."""

    def __init__(self) -> None:
        self.events: list[tuple[str, list[Any]]] = []
        self.answers: list[dict[str, Any]] = []

    def add(self, name: str, arguments: list[Any]) -> None:
        self.events.append((name, arguments))

    def complete(self, message: Any) -> None:
        self.answers.append({"result": getattr(message, "result", None), "error": getattr(message, "error", None)})

    def is_over(self) -> bool:
        """Return whether the agent is quiet again, and both calls have their answers."""
        return len(self.answers) == 2 and any(
            name == "AgentTyping" and not arguments[1] for name, arguments in self.events
        )


async def pysignalr(given: dict[str, str]) -> Seen:
    seen, is_open = Seen(), asyncio.Event()
    # Its access_token_factory is called only after the negotiation, which needs the token.
    client = SignalRClient(given["url"], headers={"Authorization": f"Bearer {given['key']}"})

    def handler(name: str) -> Any:
        async def handle(arguments: list[Any]) -> None:
            seen.add(name, arguments)

        return handle

    async def complete(message: Any) -> None:
        seen.complete(message)

    async def fail(message: Any) -> None:
        """Ignore an error: the client also gives it to the callback of its call."""

    async def opened() -> None:
        is_open.set()

    for name in NAMES:
        client.on(name, handler(name))
    client.on_open(opened)
    client.on_error(fail)
    running = asyncio.create_task(client.run())
    await is_open.wait()
    await client.send("SendMessage", ["default", given["text"]], complete)
    await client.send("SendMessage", ["nobody", "hello"], complete)
    while not seen.is_over():
        await asyncio.sleep(0.02)
    running.cancel()
    return seen


async def signalrcore(given: dict[str, str]) -> Seen:
    seen, is_open = Seen(), threading.Event()
    connection = (
        HubConnectionBuilder().with_url(given["url"], options={"access_token_factory": lambda: given["key"]}).build()
    )
    for name in NAMES:
        connection.on(name, lambda arguments, name=name: seen.add(name, arguments))
    connection.on_open(is_open.set)
    connection.on_error(seen.complete)  # errors of calls, too
    connection.start()
    await asyncio.to_thread(is_open.wait)
    connection.send("SendMessage", ["default", given["text"]], seen.complete)
    connection.send("SendMessage", ["nobody", "hello"], seen.complete)
    while not seen.is_over():
        await asyncio.sleep(0.02)
    connection.stop()
    return seen


async def main() -> None:
    given = json.loads(sys.argv[1])
    run = {"pysignalr": pysignalr, "signalrcore": signalrcore}[given["client"]]
    seen = await asyncio.wait_for(run(given), SECONDS)
    sys.stdout.write(f"{json.dumps({'seen': seen.events, 'answers': seen.answers})}\n")


if __name__ == "__main__":
    asyncio.run(main())
