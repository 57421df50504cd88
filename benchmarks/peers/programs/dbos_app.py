"""DBOS: a workflow for each message. The text is stored each 100 ms, the page gets each token from the same process.

A crash runs the step of the model call again, from its start.
"""

import asyncio
import os
import sys
import time
from uuid import uuid4

from dbos import DBOS, SetWorkflowID
from model_tokens import tokens
from websockets.asyncio.server import ServerConnection, serve

STORE_SECONDS = 0.1
DBOS(config={"name": "peer", "system_database_url": os.environ["PEER_DATABASE_URL"], "log_level": "ERROR"})
sockets: dict[str, ServerConnection] = {}


@DBOS.step()
async def call_model(text: str) -> str:
    parts: list[str] = []
    stored, stored_at = 0, time.monotonic()
    async for token in tokens(text):
        parts.append(token)
        if socket := sockets.get(str(DBOS.workflow_id)):
            await socket.send(token)
        if time.monotonic() - stored_at >= STORE_SECONDS:
            await DBOS.write_stream_async("answer", "".join(parts[stored:]))
            stored, stored_at = len(parts), time.monotonic()
    await DBOS.write_stream_async("answer", "".join(parts[stored:]))
    return "".join(parts)


@DBOS.workflow()
async def answer(text: str) -> str:
    return await call_model(text)


async def page(socket: ServerConnection) -> None:
    async for text in socket:
        workflow = str(uuid4())
        sockets[workflow] = socket
        with SetWorkflowID(workflow):
            handle = await DBOS.start_workflow_async(answer, text)
        await handle.get_result()
        del sockets[workflow]


async def main(port: int) -> None:
    DBOS.launch()
    async with serve(page, "127.0.0.1", port, compression=None, backlog=1024) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
