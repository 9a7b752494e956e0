"""Colours that can be read, and names that fit."""

import sys

import numpy as np
import pytest

from class_uncertainty import InputError
from class_uncertainty.reporting import chart_style


def luminance(colour):
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


@pytest.mark.parametrize("palette", [chart_style.LIGHT, chart_style.DARK], ids=["light", "dark"])
def test_colours_can_be_read(palette):
    """WCAG AA: a contrast of 4.5 to 1 for all text."""
    for background in ("surface", "soft"):
        for colour in palette.keys() - {"surface", "soft", "line"}:
            high, low = sorted((luminance(palette[colour]), luminance(palette[background])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (colour, background)


def test_page_config_has_no_colour_of_its_own():
    assert chart_style.page_config()["background"] == "var(--surface)"
    assert "#" not in str(chart_style.page_config())


@pytest.mark.parametrize(("name", "label"), [("a" * 14, "a" * 14), ("a" * 15, "a" * 13 + "…")])
def test_long_names_are_shortened(name, label):
    assert chart_style.short_label(name) == label


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (float("nan"), "–"), (-0.126, "−0.13"), (2.0, "2.00")])
def test_numbers_as_text(value, text):
    assert chart_style.number_text(value) == text


def test_missing_altair_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(InputError, match="pip install altair"):
        chart_style.altair()
