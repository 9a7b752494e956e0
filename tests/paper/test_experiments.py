"""Experiments by name: what each wants trained, on which data, and what is refused."""

from dataclasses import replace

import pytest
from ledgers import DATA, TABLE
from refusals import refused

import class_uncertainty as cu
from class_uncertainty.data.sources import parse_data
from class_uncertainty.estimation import EstimateRequest
from class_uncertainty.paper.experiments import (
    EXPERIMENTS,
    RATES,
    REQUESTS,
    Measuring,
    Need,
    SixNaive,
    judge_of,
    need_of,
    rates_from,
    select,
)
from class_uncertainty.paper.printed_tables import TABLE_1
from class_uncertainty.training import RECIPES

RUN = {name: experiment for name, experiment in EXPERIMENTS.items() if not experiment.needs}


@pytest.mark.parametrize("name", RUN)
def test_names_of_data_are_in_their_one_form(name):
    """A ledger finds data by the name that `load` gives them."""
    for one in RUN[name].wanted(("paper", "equal"), None, 0.1):
        for data in (one.data, *([judge_of(one.data)] if isinstance(one, Need) and len(one.rates) > 1 else [])):
            assert str(parse_data(data)) == data


@pytest.mark.parametrize("name", RUN)
def test_needs_are_listed_once_and_one_data_set_can_be_chosen(name):
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


def test_the_protocols_of_table_1():
    paper, equal = (RUN["table1"].wanted((protocol,), None, 0.1, "cifar100-lt:50") for protocol in ("paper", "equal"))
    rates = {one.method: one.rates for one in paper if isinstance(one, Need)}
    assert rates["naive"] == rates["cb-focal:beta=0.99:gamma=1"] == rates["dro+autoaugment+cutout"] == (0.1,)
    assert rates["ubrw-focal:gamma=1"] == rates["ubm-dro"] == RATES
    assert {one.rates for one in equal if isinstance(one, Need)} == {RATES}
    assert [one for one in paper if isinstance(one, SixNaive)] == [SixNaive("cifar100-lt:50")]


def test_only_cifar_10_has_the_ablation_of_pixels():
    pixels = [one for one in RUN["table1"].wanted(("paper",), None, 0.1) if "jpeg" in one.data]
    assert {one.data for one in pixels} == {f"cifar10-lt:{ratio}?jpeg=95&normalise=imagenet" for ratio in (50, 100)}
    assert {one.rates for one in pixels} == {(0.1,)}


def test_svci_20_tunes_every_row_under_both_protocols_with_five_seeds():
    paper, equal = (RUN["svci20"].wanted((protocol,), None, 0.1) for protocol in ("paper", "equal"))
    assert paper == equal
    assert {one.seeds for one in paper if isinstance(one, Need)} == {5}


def test_the_analyses_measure_what_the_paper_varies():
    assert RUN["if1b"].wanted(("paper",), None, 0.1) == [
        Measuring(f"cifar10-lt:{ratio}") for ratio in (1, 2, 10, 20, 50)
    ]
    options = ("", "?duplicate=0.3", "?duplicate=0.5", "?duplicate=0.7", "?duplicate=1")
    copied = [Measuring(f"cifar10-lt:50{option}") for option in options]
    drawn = [EstimateRequest(f"ensemble:power-rs:q={q}") for q in (0.7, 0.5, 0.3, 0)]  # 1 less the strength
    assert RUN["if2"].wanted(("paper",), None, 0.1) == copied + [Measuring("cifar10-lt:50", by) for by in drawn]
    assert RUN["figure1"].data == ["cifar100-lt:50"]
    assert {one.seeds for one in RUN["significance"].wanted(("paper",), None, 0.1)} == {5}


def test_rows_can_be_chosen_by_their_methods():
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


def test_other_estimators_are_shown_of_their_own_data():
    assert [one.estimator for one in RUN["if2"].requests_on("cifar10-lt:50")][:2] == [
        "ensemble",
        "ensemble:power-rs:q=0.7",
    ]
    assert RUN["if2"].requests_on("cifar10-lt:50?duplicate=0.3") == [REQUESTS["ensemble"]]
    assert RUN["table1"].requests_on("cifar10-lt:50") == []  # one estimator is compared with none
    assert RUN["duq"].requests_on("cifar10-lt:50") == [REQUESTS["ensemble"], REQUESTS["duq"]]


@pytest.mark.parametrize(
    ("row", "protocol", "rates"), [(0, "paper", (0.1,)), (2, "paper", RATES), (0, "equal", RATES), (2, "equal", RATES)]
)
def test_what_a_cell_needs(row, protocol, rates):
    cell = TABLE.cells()[row]
    assert need_of(cell, protocol, 0.1, 2) == Need(DATA, cell.method, rates, 2)


@pytest.mark.parametrize(("estimator", "score"), [("duq", ""), ("ensemble", "epistemic")])
def test_a_cell_needs_the_estimator_and_the_score_of_its_row(estimator, score):
    row = replace(TABLE.rows[2], estimator=estimator, score=score)
    (cell,) = replace(TABLE, rows=(row,)).cells()
    assert need_of(cell, "paper", 0.1, 2) == Need(DATA, "ubrs", RATES, 2, REQUESTS[estimator], score)


@pytest.mark.parametrize(
    ("data", "judge"),
    [
        ("cifar10-lt:100", "cifar10-lt:100?validation=500"),
        ("cifar100-lt:50", "cifar100-lt:50?validation=50"),
        ("svci20:250", "svci20:250?validation=250"),
        ("places-lt?size=256", "places-lt?judge=val&size=256"),  # the split of Places that is for this
    ],
)
def test_rates_are_chosen_on_images_set_aside(data, judge):
    assert judge_of(data) == judge


def test_rates_are_as_far_apart_as_the_paper_s():
    assert rates_from(0.1) == (0.1, 0.2, 0.4, 0.7)
    assert rates_from(0.001) == pytest.approx((0.001, 0.002, 0.004, 0.007))


def test_what_is_selected():
    everything = select("all")
    assert everything.experiments == RUN
    assert (everything.protocols, everything.recipe) == (("paper", "equal"), RECIPES["bag-of-tricks"])
    one = select("if2", "paper", only="cifar10-lt:50?duplicate=0.3", seeds=2)
    assert one.wanted(RUN["if2"]) == [Measuring("cifar10-lt:50?duplicate=0.3")]
    (swin,) = select("architectures", network="hf:swin").experiments.values()
    other = select("architectures", methods=["naive"], network="hf:swin")
    assert (other.recipe.network, other.recipe.lr) == ("hf:swin", RECIPES["fine-tune"].lr)
    assert len(swin.table.rows) > len(other.experiments["architectures"].table.rows) == 1


@pytest.mark.parametrize(
    ("request_", "parts"),
    [
        ({"experiment": "tabel1"}, ("tabel1", "table1")),
        ({"experiment": "table1", "protocol": "papper"}, ("papper", "paper")),
        ({"experiment": "table1", "only": "cifar100-lt:5"}, ("cifar100-lt:5", "cifar10-lt:50")),
        ({"experiment": "table1", "seeds": 0}, ("seeds", 0)),
        ({"experiment": "table1", "methods": ["naiv"]}, ("naiv", "naive")),
        ({"experiment": "architectures"}, ("Swin-T", "--network hf:FOLDER", "efficientnet-lite0")),
        ({"experiment": "places"}, ("ResNet-152", "--network timm:resnet152")),
        ({"experiment": "table1", "network": "hf:swin"}, ("hf:swin", "ResNet-32", "architectures and places")),
        ({"experiment": "all", "network": "hf:swin"}, ("hf:swin", "ResNet-32", "architectures and places")),
    ],
)
def test_what_there_is_not_is_refused(request_, parts):
    with refused(*parts):
        select(**request_)


def test_the_name_of_what_judges_is_that_of_its_data():
    assert cu.load("digits-lt:9?validation=10").name == judge_of("digits-lt:9")
