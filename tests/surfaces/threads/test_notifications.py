"""The notifications socket of the real server, with a client that signs in as `ksapi` does."""

import json
import re

import ksapi
from websockets.sync.client import connect

from tests.support.live_server import LiveKomand
from tests.surfaces.threads.ksapi_client import Client

SECONDS = 60


def test_a_signed_in_client_is_notified_of_a_new_title(live_komand: LiveKomand) -> None:
    signing = ksapi.AuthApi(Client(live_komand.url).api)
    who = ksapi.SignInRequest(username="admin", password=live_komand.password)
    found = re.search(r"ks_uat=[^;]+", str(signing.pw_signin_with_http_info(who).headers))
    assert found
    client, address = (
        Client(live_komand.url, api_key={"cookieAuth": found[0]}),
        live_komand.url.replace("http", "ws", 1),
    )
    with connect(f"{address}/v1/ws", additional_headers={"Cookie": found[0], "Origin": live_komand.url}) as socket:
        greeting = json.loads(socket.recv(SECONDS))
        channel = f"ks:{greeting['tenant_id']}:users:{greeting['user_id']}"
        socket.send(json.dumps({"action": "subscribe", "channel": channel}))
        assert json.loads(socket.recv(SECONDS))["event"] == "subscribed"
        thread = client.open("Plans")
        client.threads.update_thread(thread.id, ksapi.UpdateThreadRequest(title="Roses"))
        received = json.loads(socket.recv(SECONDS))
    assert (received["event"], received["thread_id"], received["title"]) == (
        "THREAD_TITLE_CHANGED",
        str(thread.id),
        "Roses",
    )
