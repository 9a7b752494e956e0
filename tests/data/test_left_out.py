"""What reading left out, in one sentence."""

from class_uncertainty.data.dataset import FEW, LeftOut


def test_what_is_left_out_is_counted_and_named():
    assert str(LeftOut("?missing=drop", "rows", 1200, 5000)) == "?missing=drop left out 1,200 of 5,000 rows."
    assert str(LeftOut("?min=2", "classes", 1, 3, ("w (1)",))) == "?min=2 left out 1 of 3 classes: w (1)."


def test_many_names_are_cut():
    names = tuple(f"{i}.png" for i in range(FEW + 2))
    text = str(LeftOut("?skip=unreadable", "images", 40, 90, names))
    assert text == "?skip=unreadable left out 40 of 90 images: 0.png, 1.png, 2.png, 3.png, 4.png and 35 more."
