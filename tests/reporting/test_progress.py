"""What a command shows while it trains: a plan, one bar, and news; lines for a file."""

import dataclasses
import io
import re
from contextlib import suppress

import pytest
from rich.console import Console
from watching import LANES
from watching import epoch_news as news

import class_uncertainty as cu
from class_uncertainty.posthoc.diagnosis import Verdict
from class_uncertainty.reporting import progress
from class_uncertainty.reporting.progress import LiveProgress, describe_plan, roughly
from class_uncertainty.reporting.work_progress import WorkProgress
from class_uncertainty.runs.watcher import Decided, Diagnosed, Rest, Stage
from class_uncertainty.training.recipe import RECIPES
from class_uncertainty.training.speed import Speed

LONG = [cu.Lane("balanced-softmax", 12, fold=(2, 5)), cu.Lane("ubrs", 1, fold=(1, 5))]
STAGES = [Stage("rung 1", "6 candidates on 1 fold", (6,)), Stage("ladder", "3 networks before and after", (3, 3))]
FINDING = Diagnosed((Verdict("9", "few", "9: 33 % wrong"),), 81, 5)


def of_epochs(number: int) -> cu.Recipe:
    return cu.Recipe("small-conv", epochs=number, batch=32)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def rendered(state: LiveProgress, width: int = 120, height: int = 24) -> str:
    file = io.StringIO()
    state.console = Console(file=file, width=width, height=height)
    state.console.print(state.table())
    return file.getvalue()


def test_a_bar_for_the_whole_and_a_row_for_each_network(clock):
    state = LiveProgress()
    state.ahead(STAGES, of_epochs(10), "cpu", lambda networks, kind: None)
    with state("training candidates", 6, 10) as update:
        update(news(0))
        clock[0] = 4.0
        update(news(4))  # half of two networks of twelve
        text = rendered(state)
    assert text.splitlines()[0] == "0 of 12 networks, about 0:44 left: training candidates"
    assert "━" in text.splitlines()[1]
    cells = ("naive 0", "ubrs 1 fold 2/5", "5/10", "0.5000", "12.3", "0.1", "1,000")
    assert all(cell in text for cell in cells)


@pytest.mark.parametrize("lanes", [LANES, LONG])
@pytest.mark.parametrize("width", [80, 48, 40])
def test_a_narrow_terminal_shows_whole_numbers(clock, width, lanes):
    state = LiveProgress()
    with state("training candidates of a fix", 60, 5000) as update:
        update(news(0, lanes, epochs=5000))
        clock[0] = 1e4
        update(dataclasses.replace(news(4998, lanes, epochs=5000), seconds=7498.0))
        first, bar, *rest = rendered(state, width).splitlines()
    assert first.startswith("0 of 60 networks, about")
    assert " left:" in first
    assert len(first) <= width
    assert len(bar.strip()) <= width
    assert any(all(cell in line for cell in ("ubrs 1 fold 2/5", "4999/5000")) for line in rest)


def test_trained_networks_leave_the_table_and_the_rest_is_counted(clock):
    state, lanes = LiveProgress(), [cu.Lane("naive", seed) for seed in range(30)]
    with state("training", 31, 10) as update:
        update(news(9, LANES[1:]))
        update(news(3, lanes))
        text = rendered(state, height=12)
    assert "ubrs" not in text
    assert text.startswith("1 of 31 networks")
    assert "and 25 more networks" in text


def test_a_stop_leaves_the_bar_where_it_is(clock):
    """The last picture before it goes away, as a terminal gets it."""
    state, file = LiveProgress(), io.StringIO()
    state.console = Console(file=file, width=120, height=24, force_terminal=True)
    state.ahead(STAGES, of_epochs(10), "cpu", lambda networks, kind: None)
    with suppress(KeyboardInterrupt), state("training candidates", 6, 10) as update:
        update(news(9))
        raise KeyboardInterrupt
    state.close()
    assert re.findall(r"\d+ of \d+ networks", file.getvalue())[-1] == "2 of 12 networks"


def test_without_news_the_time_left_is_unknown(clock):
    state = LiveProgress()
    with state("training", 2, 10):
        assert state.summary() == "0 of 2 networks, about ? left: training"


def test_lines_go_to_a_file_ever_less_often(clock, capsys):
    state = LiveProgress()
    with state("training", 2, 10) as update:
        for second in (0, 10, 29, 30, 31, 59, 61, 1000, 1050, 1099, 1115, 1150, 1250):
            clock[0] = float(second)
            update(news(second % 9))
    assert capsys.readouterr().err.count("of 2 networks") == 5  # after 30, 61, 1000, 1115 and 1250 seconds


def test_many_short_stages_are_not_silent_and_go_on_counting(clock, capsys):
    state = LiveProgress()
    stages = [Stage(f"{number}", "", (2,)) for number in range(7)]
    state.ahead(stages, of_epochs(10), "cpu", lambda networks, kind: None)
    for stage in range(7):  # of ten seconds each
        state.begin(f"{stage}")
        with state(f"stage {stage}", 2, 10) as update:
            clock[0] += 10.0
            update(news(9))
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["6 of 14 networks", "12 of 14 networks"]
    assert [line.rpartition(": ")[2] for line in lines] == ["stage 2", "stage 5"]


def test_the_plan_is_said_once_something_is_trained(clock, capsys):
    measured = []

    def measure(networks: int, kind: cu.Recipe | None) -> Speed:
        measured.append(networks)
        return Speed(20.0, width=3)

    state = LiveProgress()
    state.ahead(STAGES, of_epochs(40), "cpu", measure)
    state.tell(FINDING)  # of networks that are stored
    state.begin("ladder")
    assert capsys.readouterr().err == ""
    with state("training naive networks", 3, 40):
        pass
    with state("training the best candidate", 3, 40):
        pass
    assert measured == [6]  # what the store lacks
    plan = "To train: up to 6 networks of 40 epochs in about 40 s on this CPU: 3 networks before and after.\n"
    assert capsys.readouterr().err == plan


def test_a_plan_leaves_out_what_was_trained_before(clock, capsys):
    state = LiveProgress()
    state.ahead(STAGES, of_epochs(40), "cpu", lambda networks, kind: Speed(10.0))
    state.begin("rung 1", [Rest.apart([0.0, 0.0, 0.0, 0.5, 0.5, 1.0])])
    with state("training candidates", 3, 40):
        pass
    about = "6 candidates on 1 fold (3 of 6 trained before, 2 begun); 3 networks before and after"
    plan = f"To train: up to 9 networks of 40 epochs in about 1 min on this CPU: {about}.\n"  # 9 less 1, 10 s each
    assert capsys.readouterr().err == plan


def test_a_plan_says_what_shared_epochs_spare():
    work = WorkProgress()
    work.announce([Stage("methods", "4 methods × 1 seed", (4,), turns=(((1, 0.8), (4, 0.2)),))])
    plan = "To train: up to 4 networks of 10 epochs: 4 methods × 1 seed."
    spared = " Epochs that networks share train once, which spares 2.4 networks."
    assert describe_plan(work, of_epochs(10), "cpu") == plan + spared


def test_trees_are_called_models_in_the_summary_too(clock):
    state = LiveProgress()
    state.ahead(STAGES, RECIPES["forest"], "cpu", lambda networks, kind: None)
    with state("training candidates", 6, 1):
        assert state.summary().startswith("0 of 12 models, about")


def test_trees_are_models_without_epochs():
    work = WorkProgress()
    work.announce([Stage("rung 1", "6 candidates of network.csv", (6,)), Stage("ladder", "3 models", (3, 3))])
    plan = "To train: up to 12 models: 6 candidates of network.csv; 3 models."
    assert describe_plan(work, RECIPES["forest"], "cpu") == plan


def test_news_are_said_while_there_is_more_to_train(clock, capsys):
    state = LiveProgress()
    state.ahead(STAGES, of_epochs(10), "cuda", lambda networks, kind: Speed(1.0))
    with state("training candidates", 6, 10) as update:
        update(news(9))
    capsys.readouterr()
    state.tell(FINDING)
    err = capsys.readouterr().err
    assert err.splitlines() == [
        "Trained naively, once a fold, on 81 unseen examples:",
        "  9: 33 % wrong",
        "  5 classes have too few of these examples to say anything.",
    ]
    state.tell(Decided("One network is kept."))  # the result begins with it
    assert capsys.readouterr().err == ""
    assert [type(one) for one in state.news] == [Diagnosed, Decided]


def test_work_of_a_few_seconds_is_done_in_silence(clock, capsys):
    state = LiveProgress()
    state.ahead(STAGES, of_epochs(1), "cpu", lambda networks, kind: None)
    with state("training candidates", 6, 1) as update:
        update(news(0, epochs=1))
        state.tell(FINDING)
    assert capsys.readouterr().err == ""
    assert state.news == [FINDING]


def test_another_workflow_begins_anew(clock):
    state = LiveProgress()
    for _ in range(2):
        state.ahead(STAGES, of_epochs(10), "cpu", lambda networks, kind: None)
        with state("training candidates", 6, 10) as update:
            update(news(9))
        state.tell(FINDING)
        assert state.work.amounts()[:2] == (2, 12)
        assert state.news == [FINDING]
        state.close()


def test_a_plan_of_one_network():
    state = LiveProgress()
    state.work.announce([Stage("measuring", "1 network measures uncertainty", (1,))])
    plan = "To train: one network of one epoch: 1 network measures uncertainty."
    assert describe_plan(state.work, of_epochs(1), "cpu") == plan


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "5 s"), (22, "20 s"), (54, "55 s"), (56, "1 min"), (340, "6 min"), (1900, "30 min"), (9000, "2.5 h")],
)
def test_a_guess_is_rounded(seconds, words):
    assert roughly(seconds) == words
