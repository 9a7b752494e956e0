"""Names of places where lanes train, checked before torch is imported."""

import re

from class_uncertainty.errors import InputError, unknown

LOCAL, AUTO, REMOTE = "ray", "auto", "ray://HOST:PORT"
ADDRESS = re.compile(r"ray://([^/:\s]+|\[[0-9a-fA-F:]+\]):(\d{1,5})")


def check_place(on: str, profiles: bool = False, device: str | None = None) -> None:
    """Refuse what is neither 'ray', 'auto' nor 'ray://HOST:PORT', and a trace or a device that it does not have."""
    if on.startswith("ray:"):
        address = ADDRESS.fullmatch(on)
        if address is None or not 0 < int(address[2]) < 2**16:
            raise InputError(f"{on!r} is no place to train on: an address is {REMOTE}, as ray://head:10001.")
    elif on not in (LOCAL, AUTO):
        raise unknown("place to train on", on, [LOCAL, AUTO, REMOTE])
    if profiles:
        raise InputError("a trace is of one process: leave out --profile, or --on.")
    if device not in (None, "cpu", "cuda"):
        raise InputError(f"device is {device!r}: on a Ray cluster it is 'cpu' or 'cuda'.")
