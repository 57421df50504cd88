"""Long texts are rendered beside the event loop, and never two at the same time."""

import asyncio
import threading
from uuid import UUID

from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.live_text import LiveTexts
from sessions_app.surfaces.chat.projection import Projection
from sessions_app.surfaces.chat.render_thread import RenderThread

RUN = UUID(int=2)


async def test_a_long_rendering_leaves_the_event_loop_free() -> None:
    renders, may_end, order = RenderThread(), threading.Event(), []

    def long() -> int:
        assert may_end.wait(60)
        order.append("long")
        return threading.get_ident()

    def short() -> int:
        order.append("short")
        return threading.get_ident()

    assert await renders.run(short, is_long=False) == threading.get_ident()
    first = asyncio.ensure_future(renders.run(long, is_long=True))
    second = asyncio.ensure_future(renders.run(short, is_long=False))
    await asyncio.sleep(0)  # the loop goes on while the thread works
    assert order == ["short"]
    may_end.set()
    async with asyncio.timeout(60):
        assert await first != threading.get_ident()
        assert await second == await first
    assert order == ["short", "long", "short"]


def test_a_text_is_long_with_what_is_open_of_it() -> None:
    page = Projection(LiveTexts())

    def piece(offset: int, text: str) -> list[SessionEvent]:
        payload = {"offset": offset, "text": text}
        return [SessionEvent("text.delta", UUID(int=1), RUN, 0, payload, "1.1-1")]

    block = "```\n" + "x\n" * 9_000
    assert not page.is_long(piece(0, block))
    page.updates(piece(0, block))
    assert page.is_long(piece(len(block), "y\n" * 2_000))
    closed = "y\n```\n\n" + "Done.\n\n" * 300
    page.updates(piece(len(block), closed))
    assert not page.is_long(piece(len(block + closed), "y\n" * 2_000))
