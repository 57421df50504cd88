"""Networks as SVG."""

import re
from xml.etree import ElementTree

from hypothesis import given

from agents_app.networks.definition import Network, OnError, Task
from agents_app.networks.outcomes import TaskResult, TaskStatus
from agents_app.networks.picture import to_svg
from tests.support.networks import networks

SVG = "{http://www.w3.org/2000/svg}"


def test_tasks_stand_to_the_right_of_what_they_wait_for() -> None:
    tasks = (Task("a", on_error=OnError.FALLBACK, fallback="c"), Task("b", depends_on=("a",)), Task("c"))
    drawn = ElementTree.fromstring(
        to_svg(Network("net", tasks), {"a": TaskResult(TaskStatus.FAILED, error="It broke.")})
    )
    boxes = {box.findtext(f"{SVG}text"): box.find(f"{SVG}rect") for box in drawn.findall(f"{SVG}g")}
    columns = {name: int(box.get("x", "")) for name, box in boxes.items() if name and box is not None}
    assert columns["a"] < columns["c"] < columns["b"], "b waits for the fallback, too"
    assert boxes["a"] is not None and boxes["a"].get("stroke") == "#dc2626"
    assert boxes["c"] is not None and boxes["c"].get("stroke-dasharray")
    assert [title.text for title in drawn.findall(f"{SVG}g/{SVG}title")][0] == "It broke."


@given(networks())
def test_each_network_has_a_picture_without_overlaps(network: Network) -> None:
    text = to_svg(network)
    places = re.findall(r'<rect x="(\d+)" y="(\d+)"', text)
    assert len(places) == len(set(places)) == len(network.flat())
    assert ElementTree.fromstring(text).get("role") == "img"


def test_names_are_text() -> None:
    assert "<script>" not in to_svg(Network("net", (Task("a", agent="<script>"),)))


def test_a_task_names_what_carries_it_out() -> None:
    tasks = (Task("a", agent="writer"), Task("b", ask="Publish?"), Task("c", value=1))
    drawn = ElementTree.fromstring(to_svg(Network("net", tasks)))
    notes = [box.findall(f"{SVG}text")[1].text for box in drawn.findall(f"{SVG}g")]
    assert notes == ["writer", "person", "value"]
