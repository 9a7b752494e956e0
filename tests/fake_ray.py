"""A stand-in for Ray in this process: tests say which nodes there are and what becomes of every task."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

ERRORS = ["NodeDiedError", "ObjectLostError", "OutOfMemoryError", "WorkerCrashedError", "TaskUnschedulableError"]
ERRORS += ["GetTimeoutError", "RayTaskError"]
MODULES = ["ray_cluster", "ray_task", "ray_executor"]


@dataclass(eq=False)
class Reference:
    """To a value, or to a task that has ended once it has one. An error is raised by whoever gets it."""

    value: Any = None
    task: "Task | None" = None

    def task_id(self) -> SimpleNamespace:
        return SimpleNamespace(hex=lambda: self.task.id)


@dataclass(eq=False)
class Task:
    """A call of a remote function; the node that it asks for, "" if any."""

    id: str
    function: Callable
    arguments: tuple
    node: str

    def run(self) -> Any:
        return self.function(*(each.value if isinstance(each, Reference) else each for each in self.arguments))


class FakeRay(ModuleType):
    """`play` gets a task whenever the driver waits, and returns its result or error; None where it is not over."""

    __version__ = "2.60.0"

    def __init__(self) -> None:
        super().__init__("ray")
        self.play: Callable[[Task], Any] = Task.run
        self.alive = ["a"]
        self.resources = {"CPU": 1.0}  # of every node
        self.tasks: list[Task] = []
        self.running: Task | None = None
        self.cancelled: list[Task] = []
        self.exceptions = ModuleType("ray.exceptions")
        self.exceptions.RayError = type("RayError", (Exception,), {})
        for name in ERRORS:
            setattr(self.exceptions, name, type(name, (self.exceptions.RayError,), {}))

    def nodes(self) -> list[dict]:
        row = {"Alive": True, "Resources": self.resources}
        return [row | {"NodeID": node, "NodeManagerHostname": f"host-{node}"} for node in self.alive]

    def get_runtime_context(self) -> SimpleNamespace:
        return SimpleNamespace(get_task_id=lambda: self.running.id, get_node_id=lambda: self.alive[0])

    def put(self, value: Any) -> Reference:
        return Reference(value)

    def get(self, reference: Any, timeout: float | None = None) -> Any:
        if isinstance(reference, list):
            return [self.get(each) for each in reference]
        self._play(reference)
        if isinstance(reference.value, Exception):
            raise reference.value
        return reference.value

    def wait(self, references: list[Reference], num_returns: int = 1, timeout: float = 0) -> tuple[list, list]:
        for reference in references:
            self._play(reference)
        ended = [reference for reference in references if reference.value is not None]
        if not ended:
            time.sleep(min(timeout, 0.01))
        return ended, [reference for reference in references if reference.value is None]

    def _play(self, reference: Reference) -> None:
        if reference.task and reference.value is None:
            self.running = reference.task
            reference.value = self.play(reference.task)

    def cancel(self, reference: Reference, force: bool) -> None:
        assert force
        self.cancelled.append(reference.task)

    def is_initialized(self) -> bool:
        return True

    def kill(self, actor: Any) -> None:
        pass

    def shutdown(self) -> None:
        pass

    def remote(self, **_: Any) -> Callable:
        return lambda made: self._actor(made) if isinstance(made, type) else self._function(made)

    def _actor(self, kind: type) -> SimpleNamespace:
        def made(*arguments: Any) -> SimpleNamespace:
            actor = kind(*arguments)
            names = [name for name in vars(kind) if not name.startswith("_")]
            call = lambda name: lambda *given: Reference(getattr(actor, name)(*given))  # noqa: E731
            return SimpleNamespace(**{name: SimpleNamespace(remote=call(name)) for name in names})

        return SimpleNamespace(remote=made)

    def _function(self, function: Callable) -> SimpleNamespace:
        def options(scheduling_strategy: Any = None, **_: Any) -> SimpleNamespace:
            def submit(*arguments: Any) -> Reference:
                node = scheduling_strategy.node if scheduling_strategy else ""
                task = Task(str(len(self.tasks)), function, arguments, node)
                self.tasks.append(task)
                return Reference(task=task)

            return SimpleNamespace(remote=submit)

        return SimpleNamespace(options=options)


def install(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeRay, dict[str, ModuleType]]:
    """The stand-in, and the modules that use Ray, imported anew on top of it; the test's end undoes it."""
    fake, strategies = FakeRay(), ModuleType("ray.util.scheduling_strategies")
    strategies.NodeAffinitySchedulingStrategy = lambda node, soft: SimpleNamespace(node=node, soft=soft)
    stand_ins = {"ray": fake, "ray.exceptions": fake.exceptions, strategies.__name__: strategies}
    fakes = {name: ModuleType(name) for name in ("ray.util", "ray._private")}
    fakes["ray._private"].ray_constants = fakes["ray._private"].utils = None
    for name, module in (stand_ins | fakes).items():
        monkeypatch.setitem(sys.modules, name, module)
    package = import_module("class_uncertainty.scale")
    for name in MODULES:  # what is set here is restored, whatever the imports below make of it
        monkeypatch.setattr(package, name, None, raising=False)
        monkeypatch.setitem(sys.modules, f"{package.__name__}.{name}", ModuleType(name))
        del sys.modules[f"{package.__name__}.{name}"]
    return fake, {name: import_module(f"{package.__name__}.{name}") for name in MODULES}
