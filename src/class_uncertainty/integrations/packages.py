"""Packages that only an extra installs: the missing one is named, with the extra."""

from class_uncertainty.errors import InputError


def missing(package: str, extra: str) -> InputError:
    """What to say where a package is not installed."""
    return InputError(f"{package} is not installed: run pip install 'class-uncertainty[{extra}]'.")
