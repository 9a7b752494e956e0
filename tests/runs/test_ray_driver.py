"""The driver of a Ray cluster on a stand-in for Ray: budgets, refusals, nodes that leave, checkpoints that travel."""

import time
from dataclasses import replace
from types import ModuleType
from typing import Any

import fake_ray
import pytest

import class_uncertainty as cu
from class_uncertainty.errors import InputError, MachineFault, Unfinished
from class_uncertainty.runs.mailbox import Begun, Mailbox
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import train_lanes
from class_uncertainty.training.fit_result import Fit, LaneOutcome, width_of
from class_uncertainty.training.stage_context import FitOptions

RECIPE = cu.Recipe("small-conv", epochs=3, batch=32)
WIDTH = width_of(RECIPE, "cpu")


class Driver:
    """Trains stacks of one width on the stand-in; `seeds` are of lanes that have ended."""

    def __init__(self, ray: fake_ray.FakeRay, modules: dict[str, ModuleType], train: cu.Data) -> None:
        self.ray, self.train, self.seeds = ray, train, list[int]()
        self.cluster, self.task, self.executor = (modules[name] for name in fake_ray.MODULES)

    def stacks(self, number: int, budget: float | None = None) -> None:
        lanes = [cu.Lane("naive", seed=seed) for seed in range(number * WIDTH)]
        options = FitOptions(None, None, None, None, 10, Deadline.after(budget), None, None)
        fitted, keys = Fit.untrained(self.train, lanes, RECIPE, "cpu", None), [[str(lane.seed)] for lane in lanes]
        executor = self.executor.RayExecutor(self.cluster.Cluster("cpu"))
        for batch in executor.train(fitted, self.train, options, keys, list(range(len(lanes)))):
            self.seeds += [outcome.place for outcome in batch]

    def begin(self, task: fake_ray.Task, node: str) -> None:
        *_, mailbox, number = task.arguments
        mailbox.post.remote(Begun(number, node))

    def ended(self, task: fake_ray.Task, lanes: int = WIDTH, **about: Any) -> Any:
        """The end of a stack whose first lanes are trained."""
        places = range(min(lanes, len(task.arguments[4])))
        return self.task.StackEnded([LaneOutcome(place, [], None, None) for place in places], **about)

    def first_seed(self, task: fake_ray.Task) -> int:
        return task.arguments[4][0].seed


@pytest.fixture
def driver(monkeypatch, digits) -> Driver:
    return Driver(*fake_ray.install(monkeypatch), digits.train)


def test_a_spent_budget_takes_back_what_no_node_has_begun(driver, monkeypatch):
    """The only node never starts the task: it may have left, or others use it."""
    monkeypatch.setattr(driver.executor, "BEGINNING", 0.1)
    driver.ray.play = lambda task: None
    began = time.monotonic()
    with pytest.raises(Unfinished):
        driver.stacks(3, budget=0.05)
    assert 0.1 <= time.monotonic() - began < 5
    assert driver.ray.cancelled == driver.ray.tasks
    assert len(driver.ray.tasks) == 2  # one for the node, one ahead


def test_a_spent_budget_leaves_what_has_begun_to_its_end(driver):
    """However slowly tasks begin, the first one gets further; the one behind it is taken back."""

    def play(task):
        if task is driver.ray.tasks[0] and not driver.ray.cancelled:
            driver.begin(task, "a")
        elif task is driver.ray.tasks[0]:
            return driver.ended(task, lanes=1, unfinished=True)

    driver.ray.play = play
    with pytest.raises(Unfinished):
        driver.stacks(2, budget=0.01)
    assert driver.ray.cancelled == driver.ray.tasks[1:]
    assert driver.seeds == [0]


@pytest.mark.parametrize(("budget", "asked"), [(None, 0), (60, 4)])
def test_tasks_wait_for_the_mailbox_only_where_there_is_a_budget(driver, monkeypatch, budget, asked):
    """A task that waits gives its core to another. With a budget the driver waits first, so that none has to."""
    running = []
    monkeypatch.setattr(Mailbox, "left", lambda mailbox: running.append(len(driver.ray.tasks)) or 60.0)
    monkeypatch.setattr(Mailbox, "start", lambda mailbox, seconds: running.append(len(driver.ray.tasks)))
    driver.stacks(2, budget=budget)
    assert len(running) == asked
    assert running[:1] in ([], [0])


def test_a_mailbox_that_starts_late_takes_no_time_from_the_first_task_and_gives_none(driver, monkeypatch):
    """The head is busy: its process is up once the budget and the time to begin have passed."""
    monotonic, waited, left, looks = time.monotonic, list[float](), list[float](), list[fake_ray.Task]()
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + sum(waited))

    def late(answer):
        def answer_late(mailbox, *about):
            waited[:] = [60.0]
            return answer(mailbox, *about)

        return answer_late

    for question in ("left", "start"):
        monkeypatch.setattr(Mailbox, question, late(getattr(Mailbox, question)))

    def play(task):
        looks.append(task)
        if task is driver.ray.tasks[0] and len(looks) > 2:  # no task has begun when the driver looks first
            driver.begin(task, "a")
            left.append(task.arguments[-2].left.remote().value)
            return driver.ended(task, lanes=1, unfinished=True)

    driver.ray.play = play
    with pytest.raises(Unfinished):
        driver.stacks(2, budget=30)
    assert driver.seeds == [0]
    assert left[0] <= 0


def test_a_head_that_does_not_answer_is_named_after_what_has_ended(driver, monkeypatch):
    get, driver.ray.play = driver.ray.get, driver.ended

    def slow(reference, timeout=None):
        if timeout is not None:
            raise driver.ray.exceptions.GetTimeoutError
        return get(reference)

    monkeypatch.setattr(driver.ray, "get", slow)
    with pytest.raises(MachineFault, match="the head node of the cluster did not answer in 120 s"):
        driver.stacks(3)
    assert driver.seeds == list(range(2 * WIDTH))  # one stack trains, and one waits in Ray's queue


def test_lanes_that_end_in_the_round_of_a_refusal_are_kept_and_others_train_the_rest(driver, notices):
    driver.ray.alive = ["a", "b"]

    def play(task):
        node = task.node or ("a" if driver.first_seed(task) else "b")
        driver.begin(task, node)
        return driver.ended(task) if node == "b" else driver.ended(task, lanes=1, refused="it has torch 2.8.")

    driver.ray.play = play
    driver.stacks(4)
    assert sorted(driver.seeds) == list(range(4 * WIDTH))
    assert {task.node for task in driver.ray.tasks[3:]} == {"b"}  # two train at once, and one waits
    assert notices == ["it has torch 2.8, on node host-a (a); nothing more is trained there."]


def test_where_all_nodes_refuse_it_is_said_after_what_has_ended(driver):
    driver.ray.alive = ["a", "b"]

    def play(task):
        driver.begin(task, task.node or "a")
        first = not driver.first_seed(task)
        return driver.ended(task) if first else driver.ended(task, lanes=1, refused="it has torch 2.8.")

    driver.ray.play = play
    sentence = (
        r"can train the rest: it has torch 2.8, on node host-a \(a\), it has torch 2.8, on node host-b \(b\); all"
    )
    with pytest.raises(InputError, match=sentence):
        driver.stacks(3)
    assert driver.seeds[: WIDTH + 1] == list(range(WIDTH + 1))
    assert len(driver.seeds) < 3 * WIDTH


def test_failed_lanes_go_to_another_node(driver, notices):
    driver.ray.alive = ["a", "b"]

    def play(task):
        driver.begin(task, task.node or "a")
        return driver.ended(task) if task.node else driver.ray.exceptions.WorkerCrashedError()

    driver.ray.play = play
    driver.stacks(1)
    assert [task.node for task in driver.ray.tasks] == ["", "b"]
    assert sorted(driver.seeds) == list(range(WIDTH))
    assert notices == [
        f"a stack of {WIDTH} lanes failed on node host-a (a): its process was killed; it is tried again."
    ]


def test_lost_lanes_are_named_with_a_node_that_is_not_known(driver, notices):
    driver.ray.play = lambda task: driver.ray.exceptions.NodeDiedError()
    with pytest.raises(
        MachineFault, match=r"seed 0 \(its node was lost on an unknown node, 3 times\).* all others are stored"
    ):
        driver.stacks(1)
    assert notices[0] == f"a stack of {WIDTH} lanes failed on an unknown node: its node was lost; it is tried again."
    assert "a stack of one lane failed" in notices[-1]


def test_lost_lanes_are_named_also_when_the_budget_is_spent(driver, monkeypatch, notices):
    monkeypatch.setattr(driver.executor, "BEGINNING", 0.1)
    died = driver.ray.exceptions.NodeDiedError
    driver.ray.play = lambda task: died() if driver.first_seed(task) < WIDTH else None
    with pytest.raises(Unfinished):
        driver.stacks(2, budget=0.3)
    lost = f"{WIDTH} lanes could not be trained: naive, seed 0 (its node was lost on an unknown node, 3 times)"
    assert notices[-1].startswith(lost)
    assert "stored" not in notices[-1]


@pytest.mark.parametrize("error", ["NodeDiedError", "WorkerCrashedError", "TaskUnschedulableError"])
def test_a_node_that_leaves_while_versions_are_compared_ends_nothing(driver, error):
    driver.ray.alive, ours = ["a", "b"], driver.cluster.versions()
    answers = {"a": getattr(driver.ray.exceptions, error)("node a is dead"), "b": ours | {"torch": "0.1"}}
    driver.ray.play = lambda task: answers[task.node]
    with pytest.raises(InputError, match=r"node host-b has torch 0\.1"):
        driver.cluster.check_versions(driver.cluster.Cluster("cpu"))
    answers["b"] = ours
    driver.cluster.check_versions(driver.cluster.Cluster("cpu"))
    answers["a"] = driver.ray.exceptions.RayError("no space left")
    with pytest.raises(MachineFault, match="node host-a of the cluster does not work: no space left"):
        driver.cluster.check_versions(driver.cluster.Cluster("cpu"))


def test_checkpoints_travel_where_the_folder_is_not_shared(driver, digits, tmp_path):
    """To the driver when they are written, and from there to the worker that goes on."""

    def elsewhere(task):
        job, *others = task.arguments
        job = replace(job.value, token=tmp_path / "not" / "seen")
        return replace(task, arguments=(job, *others)).run()

    driver.ray.play = elsewhere
    checkpoints = Checkpoints(tmp_path / "running")
    executor = driver.executor.RayExecutor(driver.cluster.Cluster("cpu"))

    def train(budget: float | None) -> tuple[list[int], Fit]:
        """The epochs that ended now, from 0."""
        epochs, outcomes = list[int](), list[LaneOutcome]()
        progress = lambda epoch: epochs.append(epoch.epoch)  # noqa: E731
        options = FitOptions(None, None, progress, checkpoints, 10, Deadline.after(budget), None, None)
        fitted = Fit.untrained(digits.train, [cu.Lane("naive")], RECIPE, "cpu", None)
        try:
            for batch in train_lanes(fitted, digits.train, options, executor):
                outcomes += batch
        except Unfinished:
            return epochs, fitted
        return epochs, fitted.trained(outcomes)

    epochs, _ = train(1e-3)
    assert epochs == [0]
    assert [checkpoints.epoch(file.stem) for file in checkpoints.folder.glob("*.safetensors")] == [1]
    epochs, fitted = train(None)
    assert epochs == [1, 2]
    alone = cu.fit(digits.train, [cu.Lane("naive")], recipe=RECIPE, device="cpu")
    assert all((fitted.states[0][name] == value).all() for name, value in alone.states[0].items())
