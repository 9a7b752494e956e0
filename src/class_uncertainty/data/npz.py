"""Arrays in one .npz file: x_train and y_train, or X and y; and x_test and y_test, if there is a test split."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from class_uncertainty.data.arrays import opened
from class_uncertainty.data.core import Data, align
from class_uncertainty.data.labels import factorise
from class_uncertainty.errors import InputError, MachineFault, blame_machine
from class_uncertainty.text import reason


def read(path: Path) -> tuple[Data, Data | None]:
    arrays = arrays_of(path)
    x, y = ("x_train", "y_train") if "x_train" in arrays else ("x", "y")
    judge = {"x_test", "y_test"} & arrays.keys()
    if not {x, y} <= arrays.keys() or len(judge) == 1:
        told = f"{path} holds {', '.join(arrays) or 'nothing'}"
        raise InputError(f"{told}: it must hold x_train and y_train, or X and y, and may hold x_test and y_test.")
    train = _data(path, x, y, arrays)
    return align(train, _data(path, "x_test", "y_test", arrays)) if judge else (train, None)


def arrays_of(path: Path) -> dict[str, NDArray]:
    """By their names in small letters; that of a .npy file, which has none, is x."""
    try:
        with opened(path) as file:
            if isinstance(file, np.ndarray):
                return {"x": file}
            names = [name.lower() for name in file.files]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise ValueError(f"it holds {twice!r} twice, in capitals and in small letters")
            arrays = {name.lower(): file[name] for name in file.files}
    except (InputError, MachineFault):
        raise
    except Exception as error:  # a damaged file raises nearly anything
        blame_machine(path, error)
        why = "it is no .npz file, or it holds Python objects" if "pickle" in str(error) else reason(error)
        raise InputError(f"{path} cannot be read as .npz arrays of numbers or text: {why}.") from error
    if strange := next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None):
        raise InputError(f"{path} cannot be read as .npz arrays of numbers or text: {strange!r} is none.")
    return arrays


def _data(path: Path, x: str, y: str, arrays: dict[str, NDArray]) -> Data:
    inputs, values = arrays[x], arrays[y]
    if values.ndim == 2 and values.shape[1] == 1:  # as Keras has them
        values = values[:, 0]
    try:
        if values.ndim != 1 or values.dtype.kind not in "iuUSb":
            raise InputError(f"{y} has shape {values.shape} and type {values.dtype}: labels are whole numbers or text, one an example.")
        labels, classes = factorise(np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values)
        return Data(channels_first(x, inputs), labels, classes)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: {y} holds text that is not UTF-8 ({error.reason} in {error.object!r}).") from None
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, SystemError) as error:  # numbers in the place of characters
        raise InputError(f"{path}: {y} holds text that is not Unicode ({reason(error)}).") from None


def channels_first(x: str, inputs: NDArray) -> NDArray:
    """Pictures as (N, H, W), (N, H, W, channels) or (N, channels, H, W); anything else is for Data to judge."""
    if inputs.ndim in (3, 4) and inputs.dtype != np.uint8:
        raise InputError(f"{x} has shape {inputs.shape} and type {inputs.dtype}: pictures are uint8, from 0 to 255.")
    if inputs.ndim == 3:
        return inputs[:, None]
    if inputs.ndim == 4 and inputs.shape[3] in (1, 3, 4) and inputs.shape[1] not in (1, 3):
        return np.ascontiguousarray(inputs.transpose(0, 3, 1, 2))
    return inputs
