"""Random networks without faults, as a hypothesis strategy."""

from dataclasses import replace

from hypothesis import assume
from hypothesis import strategies as st

from agents_app.networks.checks import check
from agents_app.networks.definition import Condition, Group, Loop, MapOver, Network, OnError, Operator, Task


@st.composite
def task_of(draw: st.DrawFn, number: int) -> Task:
    """Draw a task that depends on tasks before it, in one of the ways that there are."""
    before = [f"t{one}" for one in range(number)]
    chosen = draw(st.lists(st.sampled_from(before), max_size=3, unique=True)) if before else []
    task = Task(
        f"t{number}",
        depends_on=tuple(chosen),
        retries=draw(st.integers(0, 2)),
        on_error=draw(st.sampled_from([OnError.STOP, OnError.CONTINUE, OnError.CONTINUE])),
    )
    match draw(st.sampled_from(["plain", "plain", "map", "when", "optional", "loop"])):
        case "map":
            source = draw(
                st.sampled_from(["context.items", "context.none", *(f"tasks.{one}.output.list" for one in before)])
            )
            return replace(task, map_over=MapOver(source))
        case "when" if before:
            path = f"tasks.{draw(st.sampled_from(before))}.output.flag"
            return replace(task, when=Condition(path, Operator.EQUALS, True))
        case "optional":
            return replace(task, depends_on=(), optional=True)
        case "loop":
            until = Condition(f"tasks.t{number}.output.flag", Operator.EQUALS, True)
            return replace(task, loop=Loop(until, draw(st.integers(1, 3)), draw(st.sampled_from(["", *before]))))
    return task


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw a network without faults of up to nine tasks and fallbacks."""
    tasks = [draw(task_of(number)) for number in range(draw(st.integers(2, 7)))]
    for number, task in enumerate(tasks):
        optional = [other.name for other in tasks[number + 1 :] if other.optional]
        if optional and not task.map_over and draw(st.booleans()):
            tasks[number] = replace(task, activates=tuple(optional))
    for number in range(2):
        at = draw(st.integers(0, len(tasks) - 1))
        if not tasks[at].loop and not tasks[at].fallback and not tasks[at].name.startswith("f"):
            tasks[at] = replace(tasks[at], on_error=OnError.FALLBACK, fallback=f"f{number}")
            tasks.append(Task(f"f{number}", on_error=draw(st.sampled_from([OnError.STOP, OnError.CONTINUE]))))
    size = draw(st.integers(0, 2))
    entries = (Group("all_first", tuple(tasks[:size])), *tasks[size:]) if size else tuple(tasks)
    network = Network("drawn", entries, concurrency=draw(st.integers(1, 4)))
    assume(not check(network))
    return network
