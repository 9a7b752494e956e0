"""Mailbox: letters in order, each collected once; a process of it needs no torch."""

import subprocess
import sys

from class_uncertainty.scale.mailbox import Begun, Mailbox, Saved


def test_letters_are_collected_once_and_in_order():
    mailbox, letters = Mailbox(), [Begun("1", "a"), Begun("2", "b")]
    for letter in letters:
        mailbox.post(letter)
    assert mailbox.collect() == letters
    assert mailbox.collect() == []


def test_the_newest_checkpoint_of_lanes_is_kept():
    """However slowly the driver collects, there is one of each stack."""
    mailbox = Mailbox()
    first, other, second = Saved({"a": b"1", "b": b"1"}), Saved({"c": b"1"}), Saved({"a": b"2", "b": b"2"})
    begun = Begun("1", "a")
    for letter in (begun, first, other, second):
        mailbox.post(letter)
    assert mailbox.collect() == [begun, other, second]


def test_time_is_left_where_there_is_a_budget():
    mailbox = Mailbox()
    assert mailbox.left() == float("inf")
    mailbox.start(60)
    assert 50 < mailbox.left() <= 60
    mailbox.start(-5)  # spent while its process started
    assert mailbox.left() <= 0


def test_a_process_of_it_imports_no_torch():
    """Every training starts one, beside the stacks."""
    code = "import sys, class_uncertainty.scale.mailbox; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
