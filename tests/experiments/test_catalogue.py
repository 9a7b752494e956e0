"""Experiments by name: what each wants, on which data, and what is refused."""

import pytest
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.data.sources import parse_data
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.experiments.catalogue import EXPERIMENTS, check_only, find_experiments
from class_uncertainty.experiments.needs import Measuring, Need, SixNaive
from class_uncertainty.experiments.paper_table import RATES, judge_of
from class_uncertainty.experiments.printed_tables import TABLE_1

RUN = {name: experiment for name, experiment in EXPERIMENTS.items() if not experiment.needs}


@pytest.mark.parametrize("name", RUN)
def test_names_of_data_are_in_their_one_form(name: str) -> None:
    """A ledger finds data by the name that `load` gives them."""
    for one in RUN[name].wanted(("paper", "equal"), None, 0.1):
        for data in (one.data, *([judge_of(one.data)] if isinstance(one, Need) and len(one.rates) > 1 else [])):
            assert str(parse_data(data)) == data


@pytest.mark.parametrize("name", RUN)
def test_needs_are_listed_once_and_one_data_set_can_be_chosen(name: str) -> None:
    wanted = RUN[name].wanted(("paper", "equal"), 3, 0.1)
    assert wanted
    assert len(set(wanted)) == len(wanted)
    assert all(one.seeds == 3 for one in wanted if isinstance(one, Need))
    parts = [RUN[name].wanted(("paper", "equal"), 3, 0.1, only=data) for data in RUN[name].data]
    assert sorted(map(repr, wanted)) == sorted(repr(one) for part in parts for one in part)
    assert all(
        {one.data.partition("?")[0] for one in part} == {data.partition("?")[0]}
        for part, data in zip(parts, RUN[name].data, strict=True)
    )


def test_the_protocols_of_table_1() -> None:
    paper, equal = (RUN["table1"].wanted((protocol,), None, 0.1, "cifar100-lt:50") for protocol in ("paper", "equal"))
    rates = {one.method: one.rates for one in paper if isinstance(one, Need)}
    assert rates["naive"] == rates["cb-focal:beta=0.99:gamma=1"] == rates["dro+autoaugment+cutout"] == (0.1,)
    assert rates["ubrw-focal:gamma=1"] == rates["ubm-dro"] == RATES
    assert {one.rates for one in equal if isinstance(one, Need)} == {RATES}
    assert [one for one in paper if isinstance(one, SixNaive)] == [SixNaive("cifar100-lt:50")]


def test_only_cifar_10_has_the_ablation_of_pixels() -> None:
    pixels = [one for one in RUN["table1"].wanted(("paper",), None, 0.1) if "jpeg" in one.data]
    assert {one.data for one in pixels} == {f"cifar10-lt:{ratio}?jpeg=95&normalise=imagenet" for ratio in (50, 100)}
    assert {one.rates for one in pixels} == {(0.1,)}


def test_svci_20_tunes_every_row_under_both_protocols_with_five_seeds() -> None:
    paper, equal = (RUN["svci20"].wanted((protocol,), None, 0.1) for protocol in ("paper", "equal"))
    assert paper == equal
    assert {one.seeds for one in paper if isinstance(one, Need)} == {5}


def test_the_analyses_measure_what_the_paper_varies() -> None:
    assert RUN["if1b"].wanted(("paper",), None, 0.1) == [
        Measuring(f"cifar10-lt:{ratio}") for ratio in (1, 2, 10, 20, 50)
    ]
    options = ("", "?duplicate=0.3", "?duplicate=0.5", "?duplicate=0.7", "?duplicate=1")
    copied = [Measuring(f"cifar10-lt:50{option}") for option in options]
    drawn = [EstimateRequest(f"ensemble:power-rs:q={q}") for q in (0.7, 0.5, 0.3, 0)]  # 1 less the strength
    assert RUN["if2"].wanted(("paper",), None, 0.1) == copied + [Measuring("cifar10-lt:50", by) for by in drawn]
    assert RUN["figure1"].data == ["cifar100-lt:50"]
    assert {one.seeds for one in RUN["significance"].wanted(("paper",), None, 0.1)} == {5}


def test_rows_can_be_chosen_by_their_methods() -> None:
    chosen = RUN["table1"].restricted(["naive", "ubrw-focal", "cb-focal:beta=0.99:gamma=1"])
    methods = {"naive", "ubrw-focal:gamma={gamma}", "cb-focal:beta={beta}:gamma={gamma}"}
    assert {row.method for row in chosen.table.rows} == methods
    assert chosen.table.ablated == ("naive",)
    assert chosen.table.compares_cost
    data = {one.data for one in RUN["table1"].restricted(["dro", "ubm-dro"]).wanted(("paper",), None, 0.1)}
    assert data == set(TABLE_1.columns)  # no ablation
    assert not any(isinstance(one, SixNaive) for one in RUN["table1"].restricted(["dro"]).wanted(("paper",), None, 0.1))
    with refused("ubrw-foca", "ubrw-focal"):
        RUN["table1"].restricted(["ubrw-foca"])
    with refused("table"):
        RUN["if1a"].restricted(["naive"])


def test_bad_names_are_refused() -> None:
    with refused("tabel1", "table1"):
        find_experiments("tabel1")
    for name in ("architectures", "places"):
        with refused(name, EXPERIMENTS[name].needs):
            find_experiments(name)
    assert find_experiments("all") == RUN
    with refused("cifar100-lt:5", "cifar10-lt:50"):
        check_only(find_experiments("table1"), "cifar100-lt:5")
    check_only(find_experiments("if2"), "cifar10-lt:50?duplicate=0.3")
    assert cu.load("digits-lt:9?validation=10").name == judge_of("digits-lt:9")
