"""Properties of the projection: after any stream with losses, resets and other viewers, the page shows the text of its
viewer, with all finished blocks as HTML."""

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from agents_app.events import MESSAGE_RESET, SNAPSHOT, TEXT_DELTA
from sessions_app.events import MESSAGE_COMPLETED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.base.live_text import LiveText, LiveTexts, RenderedBlock
from sessions_app.surfaces.base.markdown import render
from sessions_app.surfaces.chat.page_updates import DiscardText, PageUpdate, ShowText
from sessions_app.surfaces.chat.projection import Projection
from tests.unit.sessions_app.live_view.test_session_stream_properties import watch_live, write_world

_TEXT = (TEXT_DELTA.name, SNAPSHOT.name, MESSAGE_RESET.name)

Place = tuple[UUID | None, int | None]


@dataclass
class Step:
    """A model of step-text.js: finished blocks, and the text after them."""

    blocks: list[RenderedBlock] = field(default_factory=list)
    open: str = ""

    @property
    def done(self) -> int:
        return self.blocks[-1].end if self.blocks else 0

    def take(self, act: ShowText) -> None:
        length = self.done + len(self.open)
        for block in act.blocks:
            if block.end <= self.done:
                continue
            assert block.start == self.done, "a block is missing"
            self.open = self.open[block.end - block.start :]
            self.blocks.append(block)
        length = max(length, self.done)
        assert act.offset <= length, "text is missing"
        self.open += act.text[length - act.offset :]


class Page:
    def __init__(self, texts: LiveTexts) -> None:
        self._projection = Projection(texts)
        self.steps: dict[Place, Step] = {}
        self.texts_seen: dict[Place, str] = {}

    def see(self, batch: list[SessionEvent]) -> None:
        for act in self._projection.updates(batch):
            self._apply(act)
        for event in batch:
            if event.type in _TEXT:
                before = self.texts_seen.get((event.run_id, event.step), "") if event.type == TEXT_DELTA.name else ""
                self.texts_seen[event.run_id, event.step] = before + event.payload.get("text", "")

    def _apply(self, act: PageUpdate) -> None:
        if isinstance(act, DiscardText):
            self.steps.pop((act.run_id, act.step), None)
        if isinstance(act, ShowText):
            self.steps.setdefault((act.run_id, act.step), Step()).take(act)

    def check(self) -> None:
        for place, text in self.texts_seen.items():
            step = self.steps.get(place, Step())
            assert step.open == text[step.done :]
            for block in step.blocks:
                assert block.html == render(text[block.start : block.end], {})
            alone = LiveText()
            alone.feed(0, text)
            assert {block.end for block in alone.blocks} <= {block.end for block in step.blocks}


@given(st.data())
def test_the_page_shows_the_text_of_its_viewer(data: st.DataObject) -> None:
    world, texts = write_world(data), LiveTexts()
    for page in (Page(texts), Page(texts)):
        events = [event for event in watch_live(world, data) if event.type in (*_TEXT, MESSAGE_COMPLETED.name)]
        over: set[UUID | None] = set()
        while events:
            count = data.draw(st.integers(1, len(events)))
            batch, events = events[:count], events[count:]
            page.see(batch)
            over |= {event.run_id for event in batch if event.type == MESSAGE_COMPLETED.name}
            page.texts_seen = {place: text for place, text in page.texts_seen.items() if place[0] not in over}
            page.check()
