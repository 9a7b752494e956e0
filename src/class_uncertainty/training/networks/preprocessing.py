"""What a network does to images before they pass through: their size, and the mean and deviation of each channel."""

from collections.abc import Mapping
from typing import Any

from class_uncertainty.checks import shortly
from class_uncertainty.errors import InputError, unknown

SIDES = (8, 1024)  # of an image that passes through
FIELDS = ("size", "mean", "std")
CHANNELS = (1, 3)


def checked_preprocessing(of: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """size, mean and std, as far as they are given; mean and std are for pixels from 0 to 1."""
    taken = dict[str, Any]()
    for key, value in given.items():
        if key not in FIELDS:
            raise unknown(f"preprocessing of {of}", str(key), FIELDS)
        taken[key] = _side(of, value) if key == "size" else _numbers(f"{key} of {of}", value, above_zero=key == "std")
    if len(taken.get("mean", ())) != len(taken.get("std", ())):
        raise InputError(f"mean and std of {of} do not go together: give one number a channel of both, or neither.")
    return taken


def _side(of: str, size: Any) -> int:
    least, most = SIDES
    if type(size) is not int or not least <= size <= most:
        allowed = f"a whole number of pixels from {least} to {most}"
        raise InputError(f"size of {of} is {shortly(size)}: it must be {allowed}.")
    return size


def _numbers(what: str, given: Any, above_zero: bool) -> tuple[float, ...]:
    try:
        numbers = tuple(map(float, given))
    except Exception:  # anything may be given
        numbers = ()
    usable = all(abs(number) < 1e6 and (number > 0 or not above_zero) for number in numbers)
    if len(numbers) not in CHANNELS or not usable:
        kind = "numbers above 0" if above_zero else "numbers"
        raise InputError(f"{what} is {shortly(given)}: it must be 1 or 3 {kind}, one a channel.")
    return numbers
