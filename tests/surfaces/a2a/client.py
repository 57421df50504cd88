# mypy: ignore-errors
"""Calls an agent with the real client, in the virtualenv of `a2a-sdk`.

Argument: {url, key, agent, binding}. Each line of standard input is {call, params}; the answer is a line for each event
or result, and at last {"end": name of the error, or empty}.
"""

import asyncio
import json
import sys

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as types
from google.protobuf.json_format import MessageToDict, ParseDict

_REQUESTS = {
    "send": types.SendMessageRequest,
    "stream": types.SendMessageRequest,
    "subscribe": types.SubscribeToTaskRequest,
    "get_task": types.GetTaskRequest,
    "list_tasks": types.ListTasksRequest,
    "cancel_task": types.CancelTaskRequest,
    "create_task_push_notification_config": types.TaskPushNotificationConfig,
    "get_task_push_notification_config": types.GetTaskPushNotificationConfigRequest,
    "list_task_push_notification_configs": types.ListTaskPushNotificationConfigsRequest,
    "delete_task_push_notification_config": types.DeleteTaskPushNotificationConfigRequest,
}


def show(value):
    print(json.dumps(value if isinstance(value, dict) else MessageToDict(value)), flush=True)  # noqa: T201


async def main(given):
    http = httpx.AsyncClient(headers={"Authorization": f"Bearer {given['key']}"}, timeout=60)

    async def connect(streaming):
        config = ClientConfig(httpx_client=http, streaming=streaming, supported_protocol_bindings=[given["binding"]])
        return await ClientFactory(config).create_from_url(f"{given['url']}/a2a/{given['agent']}")

    streaming, plain = await connect(True), await connect(False)
    show({"end": ""})
    for line in sys.stdin:
        asked = json.loads(line)
        call, error = asked["call"], ""
        request = ParseDict(asked["params"], _REQUESTS[call]())
        try:
            if call in ("send", "stream", "subscribe"):
                client = plain if call == "send" else streaming
                events = client.subscribe(request) if call == "subscribe" else client.send_message(request)
                async for event in events:
                    show(event)
            else:
                result = await getattr(plain, call)(request)
                show({} if result is None else result)
        except Exception as failure:
            error = type(failure).__name__
        show({"end": error})


asyncio.run(main(json.loads(sys.argv[1])))
