"""The glossary: one list for the page and the docs, sentences that end, and the words that tables use."""

from pathlib import Path

import pytest

from class_uncertainty.metrics import FEW, MANY
from class_uncertainty.posthoc.diagnosis import KINDS, UNJUDGED
from class_uncertainty.reporting.glossary import GLOSSARY

DOCS = Path(__file__).parents[2] / "docs" / "glossary.md"


def test_the_docs_hold_the_same_words():
    written = [" ".join(entry.split("\n\n")[0].split()) for entry in DOCS.read_text().split("\n- ")[1:]]
    assert written == [f"__{term}__ – {text}" for term, text in GLOSSARY.items()]  # in bold


@pytest.mark.parametrize("term", GLOSSARY)
def test_an_entry_is_whole_sentences(term):
    text = GLOSSARY[term]
    assert text.endswith(".")
    assert not text[0].islower()
    assert "  " not in text


def test_terms_are_sorted_so_that_they_are_found():
    assert list(GLOSSARY) == sorted(GLOSSARY, key=str.lower)


def test_what_is_wrong_with_classes_is_explained():
    kinds = {word for kind, word in KINDS.items() if kind not in UNJUDGED and kind != "unclear"}
    assert not {word for word in kinds if word not in {term.lower() for term in GLOSSARY}}


def test_the_numbers_are_those_of_the_code():
    assert f"more than {MANY}, {FEW} to {MANY}, and fewer than {FEW} " in GLOSSARY["Many, medium, few"]
