"""Axes of shares, and panels of errors against them."""

import numpy as np
import pytest

from class_uncertainty.reporting.chart_style import altair
from class_uncertainty.reporting.class_scatter import ALONE, PANEL, ShareAxis, error_panels, rho_text

SHARES = [0.01, 0.04, 0.15, 0.8]


@pytest.mark.parametrize(("shares", "log"), [(SHARES, True), ([0.2, 0.3, 0.5], False), ([0.0, 1.0], False)])
def test_an_axis_is_logarithmic_where_shares_lie_far_apart(shares, log):
    axis = ShareAxis(altair(), shares)
    assert axis.log == log
    places = [axis.position(share) for share in shares]
    assert places == sorted(places)
    assert 0 <= places[0] < places[-1] <= 1
    np.testing.assert_allclose([axis.value(place) for place in places], shares, atol=1e-12)


def test_a_panel_draws_every_class_at_its_share_and_error():
    values = [{"name": f"class {c}", "error": 10.0 * c} for c in range(4)]
    (panel,) = (one.to_dict() for one in error_panels(altair(), values, {"Cardinality": SHARES}, {"name": "class"}))
    dots = next(layer for layer in panel["layer"] if layer["mark"]["type"] == "point")
    drawn = (dots.get("data") or panel["data"])["values"]
    assert [(value["name"], value["share"], value["error"]) for value in drawn] == [
        (f"class {c}", SHARES[c], 10.0 * c) for c in range(4)
    ]
    assert panel["title"] == {"text": "Cardinality", "subtitle": "Spearman’s rho 1.00"}
    assert dots["encoding"]["x"]["title"] == "share by cardinality"


def test_a_measure_that_is_the_same_for_all_classes_has_no_panel_and_leaves_its_room():
    values = [{"name": f"class {c}", "error": 10.0 * c} for c in range(4)]
    measures = {"Rarity": SHARES, "Uncertainty": SHARES[::-1], "Equal": [0.25] * 4}

    def drawn(*names):
        panels = error_panels(altair(), values, {name: measures[name] for name in names}, {"name": "class"})
        return {panel.title.text: (panel.width, panel.height) for panel in panels}

    assert drawn(*measures) == {"Rarity": PANEL, "Uncertainty": PANEL}
    assert drawn("Equal", "Uncertainty") == {"Uncertainty": ALONE}
    assert drawn("Equal") == {}


def test_rho_as_text():
    assert (rho_text(None), rho_text(0.456)) == ("rho not defined", "Spearman’s rho 0.46")
