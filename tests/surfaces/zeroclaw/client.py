"""Runs the real `zeroclaw-api-client`: `client.py '{"url": …, "key": …, "story": …}'` prints what it has found."""

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from zeroclaw_client import APIError, Client, CronJobPatch, NewCronJob, TurnError  # type: ignore[import-not-found, unused-ignore]

Found = dict[str, Any]


async def status_of(call: Awaitable[Any]) -> int:
    """Return the status with which a call fails, 200 if it does not."""
    try:
        await call
    except APIError as error:
        return int(error.status)
    return 200


async def webhook(client: Any, given: Found) -> Found:
    sent = {"agent": "default", "session_id": "trip", "idempotency_key": "k1"}
    first = await client.webhook.send(given["text"], **sent)
    again = await client.webhook.send(given["text"], **sent)
    listed = {one.session_id: one for one in await client.sessions.list()}
    await client.sessions.rename("gw_trip", "Paris")
    messages = await client.sessions.messages("trip")
    state = await client.sessions.state("trip")
    running = [one.name for one in await client.sessions.running() if one.session_id == "trip"]
    stopped = await client.sessions.abort("trip")
    await client.sessions.delete("trip")
    return {
        "response": first.reply.response,
        "duplicate": again.duplicate and again.reply is None,
        "key": listed["trip"].session_key,
        "name": running,
        "messages": [(one.role, one.content) for one in messages],
        "state": state.state,
        "stopped": stopped,
        "deleted": await status_of(client.sessions.messages("trip")),
    }


async def chat(client: Any, given: Found) -> Found:
    async with await client.chat("default", session_id="sums", name="Sums") as session:
        answer = await session.ask("what is 17*23?")
        await session.send(given["text"])
        frames = []
        async for frame in session:
            frames.append(frame)
            if frame.type == "done":
                break
        first = session.resumed, session.message_count
    async with await client.chat("default", session_id=session.session_id) as session:
        second = session.resumed, session.message_count > 0
    return {
        "answer": answer.full_response,
        "tokens": answer.tokens_used,
        "chunks": "".join(frame.content for frame in frames if frame.type == "chunk"),
        "done": frames[-1].done.full_response,
        "resumed": [first[0], *second],
    }


async def approval(client: Any, given: Found) -> Found:
    async with await client.chat(given["agent"]) as session:
        await session.send(given["text"])
        seen = []
        async for frame in session:
            seen.append(frame.type)
            if frame.type == "approval_request":
                asked = frame
                await session.answer_approval(frame.request_id, given["decision"])
            if frame.type in ("done", "error", "aborted"):
                break
    return {"types": seen, "tool": asked.tool, "seconds": asked.timeout_secs, "answer": frame.done.full_response}


async def refusals(client: Any, given: Found) -> Found:
    try:
        await client.chat("nobody")
    except TurnError as error:
        unknown = error.code
    wrong = client.with_token("sk-user-wrong")
    return {
        "unknown agent": unknown,
        "wrong key": await status_of(wrong.sessions.list()),
        "wrong key in chat": await status_of(wrong.chat("default")),
        "not served": await status_of(client.sops.list()),
        "health": (await wrong.system.health()).status,
        "status": (await client.system.status()).agent_alias,
    }


async def pairing(client: Any, given: Found) -> Found:
    before = await client.pairing.initial_code()
    paired = await client.pairing.pair(given["code"], device_name="Laptop", device_type="cli")
    other = client.with_token(paired.token)
    devices = [one for one in await other.pairing.devices() if one.name == "Laptop"]
    again = await status_of(client.pairing.pair(given["code"]))
    new_code = await status_of(other.pairing.new_code())
    await other.pairing.revoke_device(devices[0].id)
    return {
        "required": before.pairing_required and before.pairing_code is None,
        "devices": len(devices),
        "again": again,
        "new code": new_code,
        "removed": await status_of(other.pairing.devices()),
    }


async def reports(client: Any, given: Found) -> Found:
    await client.memory.store("bike/main", "It is violet.")
    entries = [(one.key, one.content) for one in await client.memory.search(query="violet")]
    forgotten = [await client.memory.forget("bike/main") for _ in range(2)]
    stream = await client.events.subscribe()
    job = await client.cron.create(NewCronJob(agent="default", schedule="0 9 * * *", name="Sums", prompt=given["text"]))
    result = await client.cron.run(job.id)
    async with asyncio.timeout(30), stream:
        kinds = []
        while "agent_end" not in kinds:
            kinds.append((await stream.next()).kind)
    runs = await client.cron.runs(job.id, limit=5)
    paused = await client.cron.update(job.id, CronJobPatch(enabled=False))
    listed = [one.id for one in await client.cron.list()] == [job.id]
    await client.cron.delete(job.id)
    shell = await status_of(client.cron.create(NewCronJob(agent="default", schedule="0 9 * * *", command="ls")))
    cost = await client.cost.summary()
    return {
        "entries": entries,
        "forgotten": forgotten,
        "kinds": kinds,
        "history": len(await client.events.history()) > 0,
        "run": [result.success, result.output.strip()],
        "runs": [(one.status, (one.output or "").strip()) for one in runs],
        "enabled": [job.enabled, paused.enabled],
        "listed": listed,
        "shell": shell,
        "requests": cost.request_count > 0 and "default" in cost.by_agent,
        "channels": len(await client.channels.list()),
        "settings": await status_of(client.cron.settings()),
    }


STORIES: dict[str, Callable[[Any, Found], Awaitable[Found]]] = {
    one.__name__: one for one in (webhook, chat, approval, refusals, pairing, reports)
}


async def main(given: Found) -> None:
    async with Client(f"{given['url']}/zeroclaw", token=given["key"] or None) as client:
        print(json.dumps(await STORIES[given["story"]](client, given)))  # noqa: T201 - the caller reads it


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
