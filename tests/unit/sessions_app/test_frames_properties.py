"""Whatever is streamed, lost, begun anew and seen by others: the page shows the text that its viewer was told, with
all of it as HTML that is finished."""

from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from agents_app.events import MESSAGE_RESET, SNAPSHOT, TEXT_DELTA
from sessions_app.events import MESSAGE_COMPLETED
from sessions_app.live_view.cursor import SessionEvent
from sessions_app.surfaces.chat.live_text import LiveText, LiveTexts, RenderedBlock
from sessions_app.surfaces.chat.markdown import render
from sessions_app.surfaces.chat.projection import DiscardText, PageUpdate, Projection, ShowText
from tests.unit.sessions_app.test_watch_properties import watch_live, write_world

_TEXT = (TEXT_DELTA.name, SNAPSHOT.name, MESSAGE_RESET.name)

Place = tuple[UUID | None, int | None]


@dataclass
class Step:
    """As step-text.js has it: finished blocks, and the text behind them."""

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
        self.told: dict[Place, str] = {}

    def see(self, batch: list[SessionEvent]) -> None:
        for act in self._projection.updates(batch):
            self._apply(act)
        for fact in batch:
            if fact.type in _TEXT:
                before = self.told.get((fact.run_id, fact.step), "") if fact.type == TEXT_DELTA.name else ""
                self.told[fact.run_id, fact.step] = before + fact.payload.get("text", "")

    def _apply(self, act: PageUpdate) -> None:
        if isinstance(act, DiscardText):
            self.steps.pop((act.run_id, act.step), None)
        if isinstance(act, ShowText):
            self.steps.setdefault((act.run_id, act.step), Step()).take(act)

    def check(self) -> None:
        for place, text in self.told.items():
            step = self.steps.get(place, Step())
            assert step.open == text[step.done :]
            for block in step.blocks:
                assert block.html == render(text[block.start : block.end], {})
            alone = LiveText()
            alone.feed(0, text)
            assert {block.end for block in alone.blocks} <= {block.end for block in step.blocks}


@given(st.data())
def test_the_page_shows_what_its_viewer_was_told(data: st.DataObject) -> None:
    world, texts = write_world(data), LiveTexts()
    for page in (Page(texts), Page(texts)):
        facts = [fact for fact in watch_live(world, data) if fact.type in (*_TEXT, MESSAGE_COMPLETED.name)]
        over: set[UUID | None] = set()
        while facts:
            count = data.draw(st.integers(1, len(facts)))
            batch, facts = facts[:count], facts[count:]
            page.see(batch)
            over |= {fact.run_id for fact in batch if fact.type == MESSAGE_COMPLETED.name}
            page.told = {place: text for place, text in page.told.items() if place[0] not in over}
            page.check()
