"""Class names that a reader would take for one another."""

from pathlib import Path

import numpy as np
import pytest

import class_uncertainty as cu
from class_uncertainty.data.class_names import notice_twins

TWINS = {
    "case": ("Yes", "yes"),
    "Unicode form": ("Caf\N{LATIN SMALL LETTER E WITH ACUTE}", "Cafe\N{COMBINING ACUTE ACCENT}"),
    "an invisible character": ("a", "a\N{ZERO WIDTH SPACE}"),
    "one that the data show as an escape": ("a", r"a\u200b"),
    "a soft hyphen": ("waterfall", "water\N{SOFT HYPHEN}fall"),
    "a space at the end": ("cat", "cat "),
    "a look-alike space": ("red fox", "red\N{NO-BREAK SPACE}fox"),
    "a wide letter": ("A", "\N{FULLWIDTH LATIN CAPITAL LETTER A}"),
}


@pytest.mark.parametrize("case", TWINS)
def test_twins_are_named_once(case, notices):
    notice_twins(["other", *TWINS[case], "third"])
    (told,) = notices
    assert "other" not in told
    assert "third" not in told


IGNORABLE = [0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x180B, 0x180E, 0x180F, 0x200B, 0x202E, 0x2060, 0x206F, 0x2800]
IGNORABLE += [0x3164, 0xFE00, 0xFE0F, 0xFEFF, 0xFFA0, 0xFFF0, 0x1BCA0, 0x1D173, 0xE0001, 0xE0020, 0xE0100, 0xE0FFF]


@pytest.mark.parametrize("code", IGNORABLE, ids=hex)
def test_what_nobody_sees_makes_twins_and_is_spelt_out(code, notices):
    notice_twins(["cat", f"ca{chr(code)}t"])
    (told,) = notices
    assert chr(code) not in told


@pytest.mark.parametrize(
    "names", [["cat", "dog"], ["m1", "m2"], ["a", "ä"], ["1", "-1"], [r"\x01", r"\x02"], ["1", "10"]]
)
def test_other_names_are_not_twins(names, notices):
    notice_twins(names)
    assert not notices


def test_accents_that_look_alike_are_told_apart(notices):
    notice_twins(TWINS["Unicode form"])
    assert "e\\u0301" in notices[0]


def test_of_many_twins_some_are_named_and_the_others_counted(notices):
    notice_twins([*"abcdefgh", *"ABCDEFGH"])
    assert "'a' and 'A'" in notices[0]
    assert "5 more" in notices[0]


def test_every_reader_tells_of_twins_and_keeps_both(run, notices):
    """Tables, arrays, frames and predictions."""
    import pandas

    answers = ["Yes", "yes"] * 4
    frame = pandas.DataFrame({"age": np.arange(8.0), "label": answers})
    frame.to_csv("a.csv", index=False)
    np.savez("a.npz", x=np.eye(8), y=np.array(answers))
    for data in (cu.load("csv:a.csv", root="."), cu.load("npz:a.npz", root="."), cu.load(frame)):
        assert data.classes == ("Yes", "yes")
    assert len(notices) == 3
    lines = ["label,p(Yes),p(yes)", *(f"{answer},0.5,0.5" for answer in answers)]
    Path("p.csv").write_text("\n".join(lines))
    _, _, err = run("audit", "p.csv")
    assert err.count("'Yes' and 'yes'") == 1
