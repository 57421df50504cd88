"""The scheduler of networks: from a definition and the attempts so far to the attempts to start. Pure.

A task starts as soon as what it depends on has ended; nothing waits for tasks that it does not depend on. The decision
depends on the attempts alone, not on the order or time in which they ended.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents_app.networks.definition import Loop, MapOver, Network, OnError, Task, merged
from agents_app.networks.graph import Block, Graph, build
from agents_app.networks.outcomes import (
    Attempt,
    AttemptKey,
    AttemptStatus,
    Call,
    Decision,
    Ending,
    Start,
    TaskResult,
    TaskStatus,
)
from agents_app.networks.references import MissingValue, Values, as_text, holds, render, resolve, task_of, value_at
from tools_app.types.questions import LONGEST_QUESTION

Results = Mapping[str, TaskResult]
_WAITING = TaskResult()


class UnfitQuestion(ValueError):
    """A question to a person that its values make empty or too long."""


def decide(network: Network, call: Call, attempts: Iterable[Attempt]) -> Decision:
    """Return what to do next. The same attempts give the same decision; those started before are not started again.

    The definition has no faults (`checks.check`).
    """
    return _Evaluation(network, build(network), call, {one.key: one for one in attempts}).decide()


@dataclass
class _Evaluation:
    """One evaluation of a network.

    ended: results that other blocks may use.
    shown: results of all tasks.

    wanted: attempts that could start, in declared order.
    stopped_by: the task whose failure ends the network.
    """

    network: Network
    graph: Graph
    call: Call
    attempts: Mapping[AttemptKey, Attempt]
    ended: dict[str, TaskResult] = field(default_factory=dict)
    shown: dict[str, TaskResult] = field(default_factory=dict)
    wanted: list[Start] = field(default_factory=list)
    stopped_by: str = ""

    def decide(self) -> Decision:
        for block in self.graph.blocks:
            self._evaluate_block(block)
        results = {name: self.shown[name] for name in self.graph.tasks}
        running = tuple(sorted(one.key for one in self.attempts.values() if one.status is AttemptStatus.RUNNING))
        if self.stopped_by:
            error = f"The task {self.stopped_by} failed: {results[self.stopped_by].error}"
            return Decision(results, cancels=running, ending=None if running else Ending(self.stopped_by, error))
        if len(self.ended) == len(results):
            return Decision(results, ending=Ending(output=self._output()))
        place = {name: number for number, name in enumerate(self.graph.tasks)}
        starts = sorted(self.wanted, key=lambda start: (place[start.key.task], start.key))
        return Decision(results, tuple(starts[: max(0, self.network.concurrency - len(running))]))

    def _evaluate_block(self, block: Block) -> None:
        """Find the results of a block, of each run of a loop after the one before it."""
        loop = self.graph.tasks[block.loop].loop if block.loop else None
        before: dict[str, TaskResult] = {}
        for iteration in range(1, (loop.most if loop else 1) + 1):
            now: dict[str, TaskResult] = {}
            for name in block.tasks:
                now[name] = self._result(name, iteration, now, before)
                if now[name].status is TaskStatus.FAILED and self.graph.tasks[name].on_error is OnError.STOP:
                    self.stopped_by = self.stopped_by or name
            if loop is None or not self._repeats(loop, block.loop, now):
                break
            before = now
        self.shown |= now
        if all(result.status.is_ended for result in now.values()):
            self.ended |= now

    def _repeats(self, loop: Loop, name: str, now: Results) -> bool:
        is_ended = all(result.status.is_ended for result in now.values())
        if not is_ended or now[name].status is not TaskStatus.SUCCEEDED:
            return False
        return not holds(loop.until, self._values(name, now, {}))

    def _result(self, name: str, iteration: int, now: Results, before: Results) -> TaskResult:
        """Return the result of a task in one run of its block, and note the attempts that it wants."""
        task = self.graph.tasks[name]
        known = {**self.ended, **now}
        if not all(known.get(parent, _WAITING).status.is_ended for parent in self.graph.parents[name]):
            return replace(_WAITING, iteration=iteration)
        if reason := self._skip_reason(task, known, now):
            return TaskResult(TaskStatus.SKIPPED, reason=reason, iteration=iteration)
        values = self._values(name, now, before)
        if task.map_over is None:
            return self._of_attempts(task, AttemptKey(name, iteration), values)
        try:
            return self._of_items(task, task.map_over, iteration, values)
        except MissingValue as error:
            return _failed(iteration, f"{error}.")

    def _skip_reason(self, task: Task, known: Results, now: Results) -> str:
        if task.name in self.graph.served:
            served = self.graph.served[task.name]
            return "" if known[served].status is TaskStatus.FAILED else f"{served} did not fail"
        if task.when is not None:
            return "" if holds(task.when, self._values(task.name, now, {})) else "its condition does not hold"
        if task.optional:
            outputs = [known[name].output for name in self.graph.activators[task.name]]
            return "" if any(task.name in _activated(output) for output in outputs) else "no task activated it"
        source = (task_of(task.map_over.items),) if task.map_over else ()
        statuses = {self._of(name, known).status for name in (*task.depends_on, *source) if name}
        return "everything it depends on was skipped" if statuses == {TaskStatus.SKIPPED} else ""

    def _of(self, name: str, known: Results) -> TaskResult:
        """Return the result of a task, or of the fallback that stands for it."""
        result, task = known.get(name, _WAITING), self.graph.tasks[name]
        if result.status is TaskStatus.FAILED and task.on_error is OnError.FALLBACK and task.fallback in known:
            return self._of(task.fallback, known)
        return result

    def _values(self, name: str, now: Results, before: Results) -> Values:
        known = {**self.ended, **now}
        before_it = [one for one in self.graph.tasks if one in self.graph.ancestors[name] or (one == name in now)]
        found = {one: self._of(one, known) for one in before_it if one in known}
        outputs = {one: result.output for one, result in found.items() if result.output is not None}
        context = merged(self.network.context, self.call.context, self.graph.tasks[name].context)
        tasks = {one: result.to_dict() for one, result in found.items()}
        previous = {one: result.to_dict() for one, result in before.items()}
        return Values(self.call.message, {**context, **outputs}, tasks, previous)

    def _of_items(self, task: Task, over: MapOver, iteration: int, values: Values) -> TaskResult:
        items = value_at(values, over.items)
        if not isinstance(items, list):
            return _failed(iteration, f"{over.items} is not a list.")
        if len(items) > over.most:
            return _failed(iteration, f"{over.items} has {len(items)} items; at most {over.most} are allowed.")
        results = [
            self._of_attempts(task, AttemptKey(task.name, iteration, at), replace(values, item=item, index=at))
            for at, item in enumerate(items)
        ]
        return _together(results, iteration, stops=task.on_error is OnError.STOP)

    def _of_attempts(self, task: Task, key: AttemptKey, values: Values) -> TaskResult:
        """Return the result of the last attempt of a task or of one item, and note the next one that it wants."""
        if task.value is not None:
            return _of_value(task, key.iteration, values)
        last = None
        while (found := self.attempts.get(key)) is not None:
            last, key = found, replace(key, number=key.number + 1)
        count = key.number - 1
        is_final = last is not None and (last.status is not AttemptStatus.FAILED or count > task.retries)
        if not is_final:
            try:
                prompt = _prompt_of(task, values)
            except (MissingValue, UnfitQuestion) as error:
                return _failed(key.iteration, f"{error}.")
            delay = task.retry_seconds * 2 ** (count - 1) if count else 0.0
            self.wanted.append(Start(key, prompt, delay))
        result = TaskResult(attempts=count, iteration=key.iteration)
        if last is None:
            return result
        return _after(last, task, result) if is_final else replace(result, status=TaskStatus.RUNNING)

    def _output(self) -> Any:
        names = [self.network.result] if self.network.result else self.graph.last()
        found = {name: self._of(name, self.ended) for name in names}
        outputs = {name: one.output for name, one in found.items() if one.status is TaskStatus.SUCCEEDED}
        return next(iter(outputs.values()), None) if len(outputs) < 2 else outputs


def _together(results: Sequence[TaskResult], iteration: int, *, stops: bool) -> TaskResult:
    """Return the result of a task for the results of its items. stops: the first failure is the end of the network."""
    failed = [result.error for result in results if result.status is TaskStatus.FAILED]
    attempts = sum(result.attempts for result in results)
    is_open = any(not result.status.is_ended for result in results)
    if is_open and not (failed and stops):
        status = TaskStatus.RUNNING if attempts else TaskStatus.WAITING
        return TaskResult(status, attempts=attempts, iteration=iteration)
    output = [result.output for result in results]
    error = f"{len(failed)} of {len(results)} items failed, the first with: {failed[0]}" if failed else ""
    status = TaskStatus.FAILED if failed else TaskStatus.SUCCEEDED
    return TaskResult(status, as_text(output), output, error, attempts=attempts, iteration=iteration)


def _of_value(task: Task, iteration: int, values: Values) -> TaskResult:
    try:
        output = resolve(task.value, values)
    except MissingValue as error:
        return _failed(iteration, f"{error}.")
    return TaskResult(TaskStatus.SUCCEEDED, as_text(output), output, iteration=iteration)


def _after(last: Attempt, task: Task, result: TaskResult) -> TaskResult:
    """Return the result of a task whose last attempt is not repeated. result: with the number of attempts."""
    if last.status is AttemptStatus.RUNNING:
        return replace(result, status=TaskStatus.RUNNING)
    if last.status is not AttemptStatus.SUCCEEDED:
        return replace(result, status=TaskStatus.FAILED, error=last.error or last.status.value)
    if unknown := [name for name in _activated(last.output) if task.activates and name not in task.activates]:
        return replace(result, status=TaskStatus.FAILED, error=f"It activated {unknown[0]!r}, which it may not.")
    return replace(result, status=TaskStatus.SUCCEEDED, text=last.text, output=last.output)


def _prompt_of(task: Task, values: Values) -> str:
    """Return the prompt of an agent, or the question to a person. Raises MissingValue, UnfitQuestion."""
    if task.ask is None:
        return render(task.prompt, values) if task.prompt else default_prompt(task, values)
    question = render(task.ask, values).strip()
    if not 1 <= len(question) <= LONGEST_QUESTION:
        raise UnfitQuestion(f"Its question has {len(question):,} characters; it must have 1 to {LONGEST_QUESTION:,}")
    return question


def default_prompt(task: Task, values: Values) -> str:
    """Return the message of a task without a prompt: that of the call, its item, its context and what came before."""
    parts: list[tuple[str, Any]] = [("", values.message)]
    if values.index is not None:
        parts.append(("Item", values.item))
    declared = {name: value for name, value in values.context.items() if name not in values.tasks}
    if declared:
        parts.append(("Context", declared))
    needed = task.depends_on or (() if task.map_over else tuple(values.tasks))
    for name in needed:
        result = values.tasks.get(name, {"output": None, "error": ""})
        parts.append((f"Result of {name}", result["output"] if result["output"] is not None else result["error"]))
    texts = [(title, as_text(value)) for title, value in parts]
    return "\n\n".join(f"## {title}\n\n{text}" if title else text for title, text in texts if text)


def _failed(iteration: int, error: str) -> TaskResult:
    return TaskResult(TaskStatus.FAILED, error=error, iteration=iteration)


def _activated(output: Any) -> list[str]:
    names = output.get("activate") if isinstance(output, Mapping) else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
