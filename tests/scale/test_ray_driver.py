"""The driver of a Ray cluster on a stand-in for Ray: budgets, refusals, nodes that leave, checkpoints that travel."""

import re
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import fake_ray
import pytest
import torch

import class_uncertainty as cu
from class_uncertainty.errors import InputError, MachineFault, Unfinished
from class_uncertainty.scale.mailbox import Begun, Mailbox
from class_uncertainty.training.checkpoints import Checkpoints
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import train_lanes
from class_uncertainty.training.fit_result import Fit, LaneOutcome, width_of
from class_uncertainty.training.stage_context import FitOptions

RECIPE = cu.Recipe("small-conv", epochs=3, batch=32)
WIDTH = width_of(RECIPE, "cpu")


class Driver:
    """Trains stacks of one width on the stand-in; `seeds` are of lanes that have ended."""

    def __init__(self, ray: fake_ray.FakeRay, modules: dict[str, ModuleType], train: cu.Data, folder: Path) -> None:
        self.ray = ray
        self.folder = folder
        self.train = train
        self.seeds: list[int] = []
        self.cluster = modules["ray_cluster"]
        self.task = modules["ray_task"]
        self.executor = modules["ray_executor"]

    def stacks(self, number: float, budget: float | None = None) -> None:
        self.lanes(int(number * WIDTH), Deadline.after(budget))

    def lanes(
        self, number: int, deadline: Deadline | None = None, device: str = "cpu", checkpoints: Any = None
    ) -> None:
        lanes = [cu.Lane("naive", seed=seed) for seed in range(number)]
        options = FitOptions(None, None, None, checkpoints, 10, deadline or Deadline(), None, None)
        fitted = Fit.untrained(self.train, lanes, RECIPE, "cpu", None)
        keys = [[str(lane.seed)] for lane in lanes]
        for batch in self.executor.RayExecutor(device).train(fitted, self.train, options, keys, list(range(number))):
            self.seeds += [outcome.place for outcome in batch]

    def begin(self, task: fake_ray.Task, node: str) -> None:
        mailbox = task.arguments[-1]
        mailbox.post.remote(Begun(task.id, node))

    def ended(self, task: fake_ray.Task, lanes: int | None = None, **how: Any) -> Any:
        """The end of a stack whose first lanes are trained, by default all."""
        return self.task.StackEnded([LaneOutcome(place, [], None, None) for place in seeds(task)[:lanes]], **how)


def seeds(task: fake_ray.Task) -> list[int]:
    """Those of its lanes."""
    return task.arguments[4]


@pytest.fixture
def driver(monkeypatch, digits, tmp_path):
    return Driver(*fake_ray.install(monkeypatch), digits.train, tmp_path)


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
            return driver.ended(task, lanes=1, is_late=True)

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
            left.append(task.arguments[-1].left.remote().value)
            return driver.ended(task, lanes=1, is_late=True)

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
        node = task.node or ("a" if seeds(task)[0] else "b")
        driver.begin(task, node)
        return driver.ended(task) if node == "b" else driver.ended(task, lanes=1, refusal="it has torch 2.8.")

    driver.ray.play = play
    driver.stacks(4)
    assert sorted(driver.seeds) == list(range(4 * WIDTH))
    assert {task.node for task in driver.ray.tasks[3:]} == {"b"}  # two train at once, and one waits
    assert notices == ["it has torch 2.8, on node host-a (a); nothing more is trained there."]


def test_where_all_nodes_refuse_it_is_said_after_what_has_ended(driver):
    driver.ray.alive = ["a", "b"]

    def play(task):
        driver.begin(task, task.node or "a")
        first = not seeds(task)[0]
        return driver.ended(task) if first else driver.ended(task, lanes=1, refusal="it has torch 2.8.")

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
    driver.ray.play = lambda task: died() if seeds(task)[0] < WIDTH else None
    with pytest.raises(Unfinished):
        driver.stacks(2, budget=0.3)
    lost = f"{WIDTH} lanes could not be trained: naive, seed 0 (its node was lost on an unknown node, 3 times)"
    assert notices[-1].startswith(lost)
    assert "stored" not in notices[-1]


def test_a_node_with_other_versions_is_refused_before_anything_trains(driver):
    """One that leaves meanwhile, or does not work, is left to the tasks, each of which compares versions again."""
    driver.ray.alive = ["a", "b"]
    errors = driver.ray.exceptions
    fine = lambda task: task.function(*task.arguments)  # noqa: E731
    answers = {"a": lambda task: errors.NodeDiedError("node a is dead"), "b": fine}
    driver.ray.play = lambda task: answers[task.node](task)
    driver.cluster.check_versions()
    answers["a"] = lambda task: errors.GetTimeoutError()
    driver.cluster.check_versions()
    answers["b"] = lambda task: task.function(task.arguments[0] | {"torch": "0.1"})
    with pytest.raises(InputError, match=rf"has torch {re.escape(torch.__version__)}, and the driver 0\.1: install"):
        driver.cluster.check_versions()


@pytest.mark.parametrize(
    ("ours", "sentence"),
    [
        ({"class-uncertainty": "0.0.1"}, "has class-uncertainty .*, and the driver 0.0.1: install the same version"),
        ({"no-such-package": "2.9"}, "has no no-such-package, and the driver 2.9: install the same version on both"),
    ],
)
def test_what_differs_is_named(driver, ours, sentence):
    assert re.search(sentence, driver.cluster.difference(ours))
    assert driver.cluster.difference(driver.cluster.versions()) == ""


def test_checkpoints_travel(driver, digits, tmp_path):
    """To the driver when they are written, and from there to the worker that goes on."""
    checkpoints = Checkpoints(tmp_path / "running")
    executor = driver.executor.RayExecutor("cpu")

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


@pytest.mark.parametrize(
    ("lanes", "gpus", "sizes"),
    [(640, 8, [40] * 16), (64, 1, [64]), (64, 64, [1] * 64), (65, 1, [33, 32]), (10, 4, [3, 3, 3, 1]), (1, 8, [1])],
)
def test_gpus_get_equal_shares(driver, lanes, gpus, sizes):
    """No GPU waits for the last stack of another."""
    driver.ray.resources, driver.ray.play = {"CPU": 64.0, "GPU": float(gpus)}, driver.ended
    driver.lanes(lanes, device="cuda")
    assert [len(seeds(task)) for task in driver.ray.tasks] == sizes
    assert sorted(driver.seeds) == list(range(lanes))


def test_nodes_that_come_make_smaller_stacks(driver, monkeypatch):
    """Of 128 lanes one GPU takes 64, as many as fit; then there are four, and the others have 16 each."""
    monkeypatch.setattr(driver.executor, "LOOK", 1e-9)
    driver.ray.resources = {"CPU": 1.0, "GPU": 1.0}
    monkeypatch.setattr(driver.executor, "AHEAD", 0)

    def play(task):
        driver.ray.alive = ["a", "b", "c", "d"]
        return driver.ended(task)

    driver.ray.play = play
    driver.lanes(128, device="cuda")
    assert [len(seeds(task)) for task in driver.ray.tasks] == [64, 16, 16, 16, 16]


def test_stacks_of_cpus_are_always_as_wide(driver):
    """Fewer lanes would take as long."""
    driver.ray.alive, driver.ray.play = ["a", "b", "c", "d"], driver.ended
    driver.lanes(2 * WIDTH + 2)
    assert [len(seeds(task)) for task in driver.ray.tasks] == [WIDTH, WIDTH, 2]


def test_few_tasks_wait_in_rays_queue(driver):
    """However many stacks there are: as many as train at once, and one more."""
    driver.ray.alive, most = ["a", "b"], []

    def play(task):
        under_way = len(driver.ray.tasks) - len(driver.seeds) // WIDTH
        most.append(under_way)
        return driver.ended(task) if task is driver.ray.tasks[len(driver.seeds) // WIDTH] else None

    driver.ray.play = play
    driver.stacks(10)
    assert max(most) == 3
    assert driver.seeds == list(range(10 * WIDTH))


def test_a_lane_that_kills_its_process_is_given_up_and_takes_no_other_with_it(driver, notices):
    killer = 2
    crashed = driver.ray.exceptions.WorkerCrashedError
    driver.ray.play = lambda task: crashed() if killer in seeds(task) else driver.ended(task)
    with pytest.raises(
        MachineFault, match=r"one lane could not be trained: naive, seed 2 \(.* 3 times\); all others are stored"
    ):
        driver.stacks(2)
    assert [seeds(task) for task in driver.ray.tasks if killer in seeds(task)][-1] == [killer]
    assert sorted(driver.seeds) == [seed for seed in range(2 * WIDTH) if seed != killer]


@pytest.mark.parametrize(("gains", "tries"), [(1, 20), (0, 3)])
def test_what_gets_further_is_tried_again(driver, gains, tries, notices):
    """A lane that fails is given up after three tries without a new checkpoint; one that gets further never is."""

    class Reached(Checkpoints):
        epochs = 0

        def epoch(self, key: str) -> int:
            return self.epochs

    checkpoints = Reached(driver.folder)

    def play(task):
        checkpoints.epochs += gains
        if len(driver.ray.tasks) < tries:
            return driver.ray.exceptions.NodeDiedError()
        return driver.ended(task)

    driver.ray.play = play
    driver.lanes(1, checkpoints=checkpoints)
    assert len(driver.ray.tasks) == tries
    assert driver.seeds == [0]


def test_the_failure_after_progress_counts_as_the_first_of_three(driver, notices):
    class Reached(Checkpoints):
        def epoch(self, key: str) -> int:
            return min(len(driver.ray.tasks), 2)

    driver.ray.play = lambda task: driver.ray.exceptions.NodeDiedError()
    with pytest.raises(MachineFault, match="its node was lost on an unknown node, 3 times"):
        driver.lanes(1, checkpoints=Reached(driver.folder))
    assert len(driver.ray.tasks) == 4  # the first got to epoch 1, and the others to epoch 2


def test_an_error_of_the_code_is_no_fault_of_a_machine(driver, notices):
    """It would come again everywhere: its lanes are given up at once, and named."""
    error = driver.ray.exceptions.RayTaskError()
    error.cause = KeyError("no such layer")
    driver.ray.play = lambda task: error if 0 in seeds(task) else driver.ended(task)
    with pytest.raises(MachineFault, match=f"{WIDTH} lanes could not be trained: naive, seed 0 .KeyError: 'no such"):
        driver.stacks(2)
    assert len(driver.ray.tasks) == 2
    assert driver.seeds == list(range(WIDTH, 2 * WIDTH))


def test_nodes_that_all_leave_are_waited_for(driver, monkeypatch, notices):
    monkeypatch.setattr(driver.executor, "LOOK", 1e-9)
    looks = []

    def play(task):
        looks.append(task)
        driver.ray.alive = [] if len(looks) < 4 else ["b"]
        return driver.ended(task) if driver.ray.alive else None

    driver.ray.play = play
    driver.stacks(1)
    assert driver.seeds == list(range(WIDTH))
    assert notices == ["no node of the cluster can train now: waiting for one that comes."]


def test_a_cluster_without_room_for_a_stack_is_refused(driver):
    driver.ray.resources = {"CPU": 0.5}
    with pytest.raises(InputError, match="no node of the cluster has 1 CPU and 1 GPU, which a stack of lanes needs"):
        driver.lanes(1, device="cuda")


def test_nodes_without_room_do_not_count(driver, monkeypatch):
    rows = [*driver.ray.nodes(), {"NodeID": "b", "NodeManagerHostname": "b", "Alive": True, "Resources": {"CPU": 0.9}}]
    monkeypatch.setattr(driver.ray, "nodes", lambda: rows)
    monkeypatch.setattr(driver.executor, "BEGINNING", 1e-9)
    driver.ray.play = lambda task: None
    with pytest.raises(Unfinished):
        driver.stacks(5, budget=0.01)
    assert len(driver.ray.tasks) == 2  # one trains on the first node, and one waits


@pytest.mark.parametrize(("ended", "picked"), [(1, "b"), (2, "c")])
def test_stacks_spread_over_the_nodes_that_are_left(driver, ended, picked, notices):
    """Once a node refuses, stacks are sent to the least busy of the others."""
    driver.ray.alive = ["a", "b", "c"]

    def play(task):
        number = int(task.id)
        if number < 3:
            driver.begin(task, "abc"[number])
        if number == 0:
            return driver.ended(task, lanes=0, refusal="it has torch 2.8.")
        return driver.ended(task) if number == ended or len(driver.ray.tasks) > 4 else None

    driver.ray.play = play
    driver.stacks(6)
    assert [task.node for task in driver.ray.tasks[:5]] == ["", "", "", "", picked]
    assert sorted(driver.seeds) == list(range(6 * WIDTH))


@pytest.mark.parametrize("version", ["2.9.3", "2.40.0", "2.51.2"])
@pytest.mark.parametrize("on", ["auto", "ray://127.0.0.1:9"])
def test_a_ray_without_tokens_is_refused_for_other_machines(driver, monkeypatch, version, on):
    monkeypatch.setattr(fake_ray.FakeRay, "__version__", version)
    with (
        pytest.raises(InputError, match=rf"Ray {version} cannot ask for a token: install Ray 2\.52 or newer"),
        driver.cluster.open_cluster(on, None),
    ):
        pass


@pytest.mark.parametrize(
    ("mode", "error", "facts"),
    [
        ("", "ray client connection timeout", ["no head", "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN"]),
        ("token", "ray client connection timeout", ["no head", "does not take the token"]),
        ("", "Initialization failure from server:\nTraceback:\nRuntimeError: no room.\n", ["RuntimeError: no room"]),
        ("", "Version mismatch: the cluster has Ray 2.58\nand more", ["Version mismatch: the cluster has Ray 2.58"]),
    ],
)
def test_why_a_cluster_cannot_be_used(driver, monkeypatch, mode, error, facts):
    """Ray's client says the same of a head that is none, and of a token that is missing or wrong."""
    monkeypatch.setenv("RAY_AUTH_MODE", mode)
    monkeypatch.setattr(driver.cluster, "_check_address", lambda on: None)

    def refuse(*_, **__):
        raise ConnectionError(error)

    monkeypatch.setattr(driver.cluster, "_init", refuse)
    monkeypatch.setattr(driver.ray, "is_initialized", lambda: False)
    with pytest.raises(MachineFault) as raised, driver.cluster.open_cluster("ray://head:10001", None):
        pass
    assert [fact for fact in ["ray://head:10001", *facts] if fact not in str(raised.value)] == []
    assert "Traceback" not in str(raised.value)
