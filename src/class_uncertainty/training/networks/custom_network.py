"""OwnNetwork: a network that is not the package's own, by the factory that makes it. torch's generator, seeded."""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from threading import RLock
from typing import Any

import torch
from torch import Tensor, nn

from class_uncertainty.errors import InputError
from class_uncertainty.training.networks.custom_body import MODULE, OwnBody, StackedOwnBody
from class_uncertainty.training.networks.fingerprints import function_code, module_code, printed, weights_hash
from class_uncertainty.training.networks.pretrained import Built
from class_uncertainty.training.streams import stream

Shape = tuple[int, ...]  # of one input
INITIALISATION = 2  # of the streams of that name: the others are of heads
TRIALS = ((2, False), (3, True))  # examples and mode of the passes that measure how many features there are
_generator = RLock()  # torch has one generator for all threads


@contextmanager
def seeded(seed: int, device: str = "cpu") -> Iterator[None]:
    """torch's own random numbers from this seed; afterwards its generators are as they were."""
    devices = [torch.cuda.current_device()] if device == "cuda" else []
    with _generator, torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)
        if device == "cuda":
            torch.cuda.manual_seed(seed)
        yield


def epoch_seed(seed: int, epoch: int) -> int:
    """Of what the layers of a lane draw in an epoch: dropout, and blocks that are left out."""
    return int(stream(seed, "network", epoch).integers(2**63))


@dataclass(frozen=True, eq=False)
class OwnNetwork:
    """What `make(pretrained)` gives: a network, what it does to images (size, mean, std), and its code.

    `is_factory` says that someone's own function makes it, which knows nothing of pretrained or not. `is_replayable`
    says that a GPU can replay a step of it: every step does the same, and no layer draws numbers.
    """

    name: str
    make: Callable[[bool], Built]
    stack: str = "loop"
    is_factory: bool = False
    is_replayable: bool = False
    widths: dict[Shape, int] = field(default_factory=dict)  # features by the shape of inputs, as far as measured
    fingerprints: dict[bool, str] = field(default_factory=dict)  # with pretrained weights and without

    @cached_property
    def built(self) -> Built:
        """As it is initialised from seed 0."""
        return self._made(False, 0)

    @cached_property
    def pretrained(self) -> nn.Module:
        """With its pretrained weights."""
        module = self._made(True, 0)[0]
        if self.is_factory and not _alike(module, self._made(True, 1)[0]):
            advice = "none are pretrained: leave out --pretrained (in Python pretrained=True)"
            raise InputError(f"network {self.name!r} has other weights at every call, so {advice}.")
        return module

    @property
    def preprocessing(self) -> dict[str, Any]:
        return self.built[1]

    @property
    def size(self) -> int | None:
        """Pixels a side of the images that it takes; None where it takes those of the data."""
        return self.preprocessing.get("size")

    @cached_property
    def architecture(self) -> str:
        """A hash of the code, the layers and the preprocessing, whatever the weights."""
        module, preprocessing, code = self.built
        shapes = [(name, tuple(value.shape)) for name, value in module.state_dict().items()]
        about = repr((printed(module), shapes, sorted(preprocessing.items())))
        return hashlib.sha256(about.encode() + code).hexdigest()[:16]

    def fingerprint(self, pretrained: bool) -> str:
        """A hash of the code and of the weights that lanes start from, or of how seed 0 initialises them."""
        if pretrained not in self.fingerprints:
            self.fingerprints[pretrained] = self._fingerprint(pretrained)
        return self.fingerprints[pretrained]

    def _fingerprint(self, pretrained: bool) -> str:
        if not pretrained and self.is_factory:
            self._check_fresh()
        module = self.pretrained if pretrained else self.built[0]
        return weights_hash(module, self.architecture.encode())

    def body(self, shape: Shape, lanes: int = 1) -> OwnBody:
        """The network for inputs of that shape, to load a state into."""
        module, features = deepcopy(self.built[0]), self.features(shape)
        if lanes == 1:
            return OwnBody(self.name, module, features)
        return StackedOwnBody(self.name, module, features, lanes, self.stack == "vmap")

    def features(self, shape: Shape) -> int:
        """How many it has for inputs of that shape, measured by two passes."""
        if shape not in self.widths:
            self.widths[shape] = self._measured(shape)
        return self.widths[shape]

    def initial(self, pretrained: bool, seed: int) -> dict[str, Tensor]:
        """The state of a lane's body."""
        lane_seed = int(stream(seed, "initialisation", INITIALISATION).integers(2**63))
        module = self.pretrained if pretrained else self._made(False, lane_seed)[0]
        return {f"body.{MODULE}.{name}": value.detach() for name, value in module.state_dict().items()}

    def _made(self, pretrained: bool, seed: int) -> Built:
        with torch.device("cpu"), seeded(seed):
            return self.make(pretrained)

    def _check_fresh(self) -> None:
        """Refuse a factory that gives the same weights whatever the seed."""
        module = self.built[0]
        drawn = any(len(value.unique()) > 1 for value in module.parameters())
        if drawn and _alike(module, self._made(False, 1)[0]):
            advice = "give --pretrained (in Python pretrained=True), which starts from them"
            raise InputError(f"network {self.name!r} has the same weights at every call: {advice}.")

    def check_maps(self, shape: Shape, method: str) -> None:
        """Refuse a method that looks at maps where the network averages them itself."""
        with torch.no_grad(), torch.device("cpu"), seeded(0):
            output = OwnBody(self.name, deepcopy(self.built[0]).eval()).maps(torch.zeros(2, *self._inputs(shape)))
        if output.ndim != 4:
            gives = "gives features that are averaged already"
            raise InputError(f"method {method!r} needs maps (B, D, h, w), and network {self.name!r} {gives}.")

    def _inputs(self, shape: Shape) -> Shape:
        """The shape that inputs of the data have when the network sees them."""
        mean = self.preprocessing.get("mean", ())
        if len(shape) != 3:
            return shape
        if len(mean) > 1 and shape[0] not in (1, len(mean)):
            raise InputError(f"network {self.name!r} takes images of {len(mean)} channels, and these have {shape[0]}.")
        return max(shape[0], len(mean)), self.size or shape[1], self.size or shape[2]

    @torch.no_grad()
    def _measured(self, shape: Shape) -> int:
        inputs = self._inputs(shape)
        body, features = OwnBody(self.name, deepcopy(self.built[0])), None
        with torch.device("cpu"), seeded(0):
            for number, training in TRIALS:
                body.train(training)
                body.features = features
                features = body(torch.zeros(number, *inputs)).shape[1]
            if self.stack == "vmap":
                self._check_vmap(inputs)
        assert features is not None
        return features

    def _check_vmap(self, inputs: Shape) -> None:
        """Refuse, before anything trains, a network that vmap cannot stack: it draws numbers, or branches on data."""
        channels, *rest = inputs
        body = StackedOwnBody(self.name, deepcopy(self.built[0]), None, 2, by_vmap=True)
        body.train()
        body(torch.zeros(3, 2 * channels, *rest))


def factory_code(factory: Callable[..., Any], module: nn.Module) -> bytes:
    """What tells a factory and the network that it makes from others: code of all layers, and the values they hold.

    Where those of the factory cannot be told from others, it is the factory's source alone.
    """
    try:
        return function_code(factory) + module_code(module)
    except InputError:
        return _source(factory) + module_code(module)


def _source(code: Any) -> bytes:
    """As far as Python knows it."""
    try:
        return inspect.getsource(code).encode()
    except (OSError, TypeError):
        return b""


def _alike(a: nn.Module, b: nn.Module) -> bool:
    first, second = a.state_dict(), b.state_dict()
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
