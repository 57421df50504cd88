"""Keeps the connections of channel accounts open: the part of each runs worker; see `komand.sockets` for the other."""

from audit_app.kernel import liveness
from komand import sd_notify
from komand.settings import env
from sessions_app.channels.connections.keeper import Keeper
from sessions_app.channels.connections.sockets_process import SocketsProcess


async def run() -> None:
    """Keep them open until cancelled. Under systemd, which has a unit for the process, requesting it has no effect."""
    await Keeper(liveness.current(), SocketsProcess(env.sockets_path()), sd_notify.request_sockets).run()
