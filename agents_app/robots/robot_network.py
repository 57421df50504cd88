"""Networks of robots in this process: the scheduler of networks decides, robots carry out its tasks."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from agents_app import structured_output
from agents_app.networks.checks import check
from agents_app.networks.definition import Network as Definition
from agents_app.networks.definition import Task, merged
from agents_app.networks.outcomes import Attempt, AttemptKey, AttemptStatus, Call, Ending, Start, TaskResult
from agents_app.networks.references import as_text
from agents_app.networks.scheduler import decide
from agents_app.robots import robot_hooks
from agents_app.robots.failures import RobotError
from agents_app.robots.results import RobotResult
from agents_app.robots.robot import Robot, RobotCall
from agents_app.robots.robot_hooks import Hook, HookContext, hooked
from agents_app.robots.robot_memory import Memory
from agents_app.robots.robot_setup import Levels
from agents_app.robots.sync_loop import run_sync
from audit_app.kernel.errors import AppError, InvalidInput
from audit_app.kernel.futures import cancel_all
from tools_app.policy.scope import resolve

RESULTS = "results:"  # prefix of the memory keys of results, before the name of the task


class NetworkFailed(RobotError):
    """A network that has ended because a task failed. task: the one that failed."""

    code = "network_failed"

    def __init__(self, message: str, task: str, results: Mapping[str, TaskResult]) -> None:
        super().__init__(message)
        self.task, self.results = task, results


@dataclass(frozen=True)
class NetworkResult:
    """The result of a network.

    context: values of the call, with the outputs of its tasks.

    robot_results: results of the attempts that succeeded, in the order in which they ended.
    by_task: the last one of each task under its name; `draft#2`, `each[0]` are those of a loop and of items.
    """

    output: Any
    results: Mapping[str, TaskResult]
    context: Mapping[str, Any]
    robot_results: tuple[RobotResult, ...] = ()
    by_task: Mapping[str, RobotResult] = field(default_factory=dict)

    @property
    def reply(self) -> str:
        return as_text(self.output)


class NetworkTask:
    """A task with its robot. Each call is one try, on a copy of the robot without its history."""

    def __init__(self, task: Task, robot: Robot, definition: Definition) -> None:
        self.task, self.robot, self._definition = task, robot, definition

    def call(self, call: RobotCall) -> RobotResult:
        """Carry out one try of the task. Raises what `Robot.call` raises."""
        return run_sync(self.acall(call))[0]

    async def acall(self, call: RobotCall) -> tuple[RobotResult, tuple[str, ...]]:
        """Return the result, and the origins of what the robot has read from outside. Raises also TimeoutError."""
        task, network, robot = self.task, self._definition, self.robot.copy()
        options = robot.options
        options.model = task.model or options.model or network.model
        options.output_schema = options.output_schema if task.answer_schema is None else task.answer_schema
        patterns = resolve(task.memory, network.memory)
        memory = call.network_memory
        limited = memory.limited(patterns) if memory is not None and patterns is not None else memory
        levels = Levels(task.tools, task.mcp_servers, network.tools, network.mcp_servers)
        context = merged(network.context, call.context, task.context)
        async with asyncio.timeout(task.time_limit):
            result = await robot.acall(replace(call, levels=levels, context=context, network_memory=limited))
        return result, robot.origins


class Network:
    """A network of robots.

    robots: by the name that tasks have as their `agent`.
    memory: shared by all of them.

    Raises InvalidInput (invalid_network) with all faults of the definition.
    """

    def __init__(
        self,
        definition: Definition,
        robots: Mapping[str, Robot],
        *,
        memory: Memory | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        tasks = {name: task for name, task in definition.flat().items() if task.has_agent}
        faults = [*map(str, check(definition))]
        faults += [
            f"{name}: `ask` needs a stored run" for name, task in definition.flat().items() if task.ask is not None
        ]
        faults += [
            f"{name}: there is no robot {task.agent!r}" for name, task in tasks.items() if task.agent not in robots
        ]
        if faults:
            raise InvalidInput("The network cannot run: " + "; ".join(faults), code="invalid_network")
        self.definition, self.memory, self.hooks = definition, memory or Memory(), tuple(hooks)
        self.tasks = {name: NetworkTask(task, robots[task.agent], definition) for name, task in tasks.items()}

    def run(self, message: str = "", **context: Any) -> NetworkResult:
        """Return the result of the network. Raises NetworkFailed, and TimeoutError after its time limit."""
        return run_sync(self.arun(message, **context))

    async def arun(self, message: str = "", **context: Any) -> NetworkResult:
        """Do what `run` does, on the event loop of the caller."""
        hooks = (*robot_hooks.everywhere, *self.hooks)
        state = HookContext(None, self.definition)
        async with hooked(hooks, "network", state):
            async with asyncio.timeout(self.definition.time_limit):
                state.result = await _Execution(self, Call(message, context), hooks).run()
        result: NetworkResult = state.result
        return result


@dataclass
class _Execution:
    """One run of a network. origins: of everything that its robots have read from outside.

    stored: tasks whose lists and values the memory has.
    """

    network: Network
    call: Call
    hooks: Sequence[Hook]
    attempts: dict[AttemptKey, Attempt] = field(default_factory=dict)
    running: dict[AttemptKey, asyncio.Task[Attempt]] = field(default_factory=dict)
    results: list[RobotResult] = field(default_factory=list)
    by_task: dict[str, RobotResult] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    origins: dict[str, None] = field(default_factory=dict)

    async def run(self) -> NetworkResult:
        try:
            while True:
                decision = decide(self.network.definition, self.call, self.attempts.values())
                self._remember(decision.results)
                if decision.ending:
                    return self._ended(decision.ending, decision.results)
                for start in decision.starts:
                    self.attempts[start.key] = Attempt(start.key)
                    self.running[start.key] = asyncio.ensure_future(self._attempt(start))
                for key in decision.cancels:
                    self.running[key].cancel()
                done, _ = await asyncio.wait(self.running.values(), return_when=asyncio.FIRST_COMPLETED)
                for key in [key for key, task in self.running.items() if task in done]:
                    task = self.running.pop(key)
                    self.attempts[key] = Attempt(key, AttemptStatus.CANCELLED) if task.cancelled() else task.result()
        finally:
            await cancel_all(self.running.values())

    async def _attempt(self, start: Start) -> Attempt:
        """Carry out one try. A failure is one of the try, with its reason, and never a text of the robot."""
        task, key = self.network.tasks[start.key.task], start.key
        await asyncio.sleep(start.delay_seconds)
        memory = self.network.memory
        call = RobotCall(
            start.prompt,
            self.call.context,
            network_memory=memory,
            network_hooks=self.network.hooks,
            origins=tuple(self.origins),
        )
        context = HookContext(task.robot, task.task)
        try:
            async with hooked(self.hooks, "task", context):
                result, origins = await task.acall(call)
                context.result = result
        except TimeoutError:
            return Attempt(
                key, AttemptStatus.FAILED, error=f"It did not end within {task.task.time_limit or 0:g} seconds."
            )
        except AppError as error:
            return Attempt(key, AttemptStatus.FAILED, error=error.message)
        self.results.append(result)
        self.by_task |= dict.fromkeys((str(replace(key, number=1)), key.task), result)
        self.origins |= dict.fromkeys(origins)
        text = result.reply or ""
        schemas = (task.task.answer_schema, task.robot.options.output_schema)
        output = text if schemas == (None, None) else structured_output.value_of(text)
        if task.task.map_over is None:
            with memory.written_by(result.robot_name):
                memory.set(f"{RESULTS}{key.task}", output)
        return Attempt(key, AttemptStatus.SUCCEEDED, text, output)

    def _remember(self, results: Mapping[str, TaskResult]) -> None:
        """Store the lists of tasks that run for each item, and values, which no robot writes."""
        for name, task in self.network.definition.flat().items():
            is_written = (task.map_over is None and task.has_agent) or name in self.stored
            if is_written or results[name].output is None or not results[name].status.is_ended:
                continue
            self.stored.add(name)
            with self.network.memory.written_by(task.agent if task.has_agent else ""):
                self.network.memory.set(f"{RESULTS}{name}", results[name].output)

    def _ended(self, ending: Ending, results: Mapping[str, TaskResult]) -> NetworkResult:
        if ending.failed:
            raise NetworkFailed(ending.error, ending.failed, results)
        outputs = {name: result.output for name, result in results.items() if result.output is not None}
        context = {**merged(self.network.definition.context, self.call.context), **outputs}
        return NetworkResult(ending.output, results, context, tuple(self.results), self.by_task)
