"""Probabilities that another program has saved."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data import Data
from class_uncertainty.data.arrays import opened
from class_uncertainty.errors import InputError, MachineFault
from class_uncertainty.estimation.core import Estimator, Scored
from class_uncertainty.files import scratch_array
from class_uncertainty.measures.scores import checked_blocks

NAME = "probabilities"
T = TypeVar("T")


def read(path: str, train: Data) -> NDArray[np.float32]:
    """(T, N, C) from a .npy or .npz file: one member's (N, C) or several members' (T, N, C), a row for each training example in order."""
    if not path:
        raise InputError(f"estimator {NAME!r} names no file: give {NAME}:FILE, a .npy or .npz file.")
    found = load(path, lambda loaded: _array(path, loaded), f"give {NAME}:FILE, a .npy or .npz file")
    p = found[None] if found.ndim == 2 else found
    if p.ndim != 3 or p.shape[1:] != (len(train), len(train.classes)):
        raise InputError(
            f"{path} has the shape {found.shape}: it needs ({len(train)}, {len(train.classes)}), a row for each training example and a "
            f"column for each class, or several members of that."
        )
    checked = scratch_array(p.shape)
    for rows, block in checked_blocks(p):
        checked[:, rows] = block
    return checked


def load(path: str | Path, pick: Callable[[Any], T], advice: str = "give a .npy or .npz file") -> T:
    """What `pick` takes from what np.load gives, or one sentence that says what is wrong with the file; nothing is unpickled."""
    if Path(path).is_dir():
        raise InputError(f"{path} is a folder: give a .npy or .npz file.")
    try:
        with opened(Path(path)) as loaded:
            return pick(loaded)
    except FileNotFoundError:
        raise InputError(f"{path} does not exist: {advice}.") from None
    except OSError as error:
        raise MachineFault(f"{path} could not be read: {error.strerror or error}.") from error
    except InputError:
        raise
    except Exception as error:  # a damaged file raises nearly anything
        raise InputError(f"{path} is no .npy or .npz file of numbers ({type(error).__name__}).") from None


def _array(path: str, loaded: Any) -> NDArray:
    """The array of a .npy file, or of a .npz file the one that is called so, or its only one."""
    if isinstance(loaded, np.ndarray):
        return loaded
    name = NAME if NAME in loaded.files else loaded.files[0] if len(loaded.files) == 1 else None
    if name is None:
        raise InputError(f"{path} has arrays {', '.join(loaded.files) or 'none'}: one must be called {NAME}.")
    found = loaded[name]
    if not isinstance(found, np.ndarray):
        raise InputError(f"{path} is no .npy or .npz file of numbers.")
    return found


def reading(path: str) -> Estimator:
    """Trains nothing: what it says is in the file."""
    about = f"what another program has saved: {NAME}:FILE, a .npy or .npz file with a row for each training example"
    return Estimator(about, lambda members, seed: [], lambda fitted, train, views: Scored(read(path, train)), views=False)
