"""What the commands share: an open store, progress on stderr, text or JSON on stdout, a Ctrl-C that loses nothing."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from class_uncertainty.data import Dataset
from class_uncertainty.errors import InputError, ShardEnded, Unfinished, memory_faults
from class_uncertainty.io import check_ending, check_writable, starts_with
from class_uncertainty.limits import check_address_space
from class_uncertainty.reporting import terminal
from class_uncertainty.reporting.news_view import print_news
from class_uncertainty.reporting.progress import LiveProgress
from class_uncertainty.reporting.section import describe_duplicates
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import checkpoints_beside
from class_uncertainty.text import amount_of, seconds, tell
from class_uncertainty.training import Recipe, default_recipe
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.networks.user_code import trust
from class_uncertainty.training.recipe import parse_recipe
from class_uncertainty.workflows.load_named import PIXELS, load_named, with_backbone

if TYPE_CHECKING:
    from class_uncertainty.runs.watcher import Watch

FINE_TUNE = "fine-tune"  # the recipe for images and pretrained weights
FEATURES = "features by "  # how the progress of embedding begins
TRACE = re.compile(rb'\s*\{\s*"schemaVersion"')  # how a trace begins


class Settings(TypedDict):
    recipe: Recipe
    store: Store
    budget: Deadline
    progress: "Watch"
    profile: Path | None


@dataclass(frozen=True, eq=False)
class Running:
    """A command that runs on one store."""

    store: Store
    as_json: bool
    root: Path | None
    deadline: Deadline
    profile: Path | None
    watch: LiveProgress = field(default_factory=LiveProgress)

    def say(self, *lines: str) -> None:
        """For people; silent where JSON is asked for."""
        if not self.as_json:
            terminal.say(*lines)

    @contextmanager
    def loader(self, read: Callable[..., Dataset] = load_named) -> Iterator[Callable[..., Dataset]]:
        """From the data folder, with a progress bar for images."""
        with terminal.progress_bars("images") as bars:

            def show(what: str, done: int, total: int) -> None:
                bars(what if what.startswith(FEATURES) else f"decoding {what}", done, total)

            yield partial(read, root=self.root, progress=show)

    def prepare(
        self,
        data: str,
        epochs: int | None = None,
        recipe: str | None = None,
        *,
        backbone: str | None = None,
        views: int | None = None,
        network: str | None = None,
        pretrained: bool = False,
        prefix: str = "",
    ) -> tuple[Dataset, Recipe]:
        """The data set, and the recipe of that name with its changes; `prefix` begins every note on the data."""
        self.watch.open()  # reading large data takes time too
        name, changes = parse_recipe(recipe) if recipe is not None else (None, {})
        given = {"epochs": epochs, "network": network, "pretrained": pretrained or None}
        if twice := next((name for name, value in given.items() if value is not None and name in changes), None):
            raise InputError(f"{twice} is given twice: by --{twice} and in --recipe {recipe!r}.")
        if pretrained and network is None and "network" not in changes:
            raise InputError("--pretrained is given, and no network: name one by --network, as efficientnet-lite0.")
        if network is not None and backbone not in (None, PIXELS):
            raise InputError(f"--network is {network!r} and --backbone {backbone!r}: give one of them.")
        if named := changes.get("network", network):
            from class_uncertainty.training.networks.network_table import find_network

            trust(named)
            find_network(named)  # refuses one that there is not, before data are read
        from_pixels = recipe is not None or network is not None or pretrained
        named_data, note = with_backbone(data, backbone, views, from_pixels, self.root)
        trust(named_data.backbone)
        if note:
            self.say(prefix + note)
        with self.loader() as load_data:
            dataset = load_data(named_data)
        for part in dataset.left_out:
            self.say(f"{prefix}{part}")
        if note := describe_duplicates(dataset):
            self.say(prefix + note)
        if pretrained and name is None and dataset.train.is_images:
            name = FINE_TUNE
        return dataset, default_recipe(dataset.train, name, **given | changes)

    def settings(self, recipe: Recipe) -> Settings:
        """What every workflow takes beside its own arguments."""
        budget, profile = self.deadline, self.profile
        return {"recipe": recipe, "store": self.store, "budget": budget, "progress": self.watch, "profile": profile}

    def show_news(self) -> None:
        """What is known of a workflow that was stopped; a JSON document is of whole ones alone."""
        if not self.as_json:
            print_news(self.watch.news)

    def show(self, value: Any, render: Callable[[Any], None]) -> Any:
        """Render a workflow's value for people; its document is for programs."""
        if not self.as_json:
            render(value)
        return value.document()

    def answer(self, document: dict[str, Any]) -> None:
        """For programs; silent where people read."""
        if self.as_json:
            terminal.print_json(document)


@contextmanager
def running(
    path: Path,
    as_json: bool,
    root: Path | None = None,
    create: bool = True,
    budget: str | None = None,
    profile: Path | None = None,
) -> Iterator[Running]:
    """A command that says, when it is stopped or short of memory, what is kept and how to go on."""
    deadline = Deadline.after(seconds(budget))
    check_address_space()
    if profile and profile.resolve() == path.resolve():
        raise InputError(f"--profile and --store are both {path}: give them different names.")
    written = _written(profile)
    with Store(path, create) as store:
        now = Running(store, as_json, root, deadline, profile)
        try:
            with memory_faults(lambda: _kept(store)):
                try:
                    yield now
                finally:
                    now.watch.close()
            if profile and _written(profile) == written:
                tell(f"nothing was trained, so {profile} was not written.")
        except KeyboardInterrupt:
            now.show_news()
            tell(f"stopped{_kept(store)}.", start="\n")  # after the ^C that a terminal shows
            raise SystemExit(130) from None
        except ShardEnded as ended:
            tell(f"{ended}.")
        except Unfinished as unfinished:
            now.show_news()
            tell(f"{unfinished}{_kept(store)}.")
            raise SystemExit(3) from None


def _kept(store: Store) -> str:
    """'; runs.sqlite keeps ...', and "" where nothing is kept."""
    under_way = ", checkpoints keep what has not" if checkpoints_beside(store).count() else ""
    if not (store.finished or store.networks or under_way):
        return ""
    results, networks = amount_of(store.finished, "result", "results"), amount_of(store.networks, "network", "networks")
    kept = f"{store.path} keeps what has finished ({results}, {networks}){under_way}"
    return f"; {kept}, and the same command goes on from there"


def _written(profile: Path | None) -> int:
    """When a trace was last written; 0 where there is none. Refuses a file that is not ours."""
    if not profile:
        return 0
    check_ending(profile, "trace", (".json", ""))
    check_writable(profile)
    if profile.exists() and profile.stat().st_size and not starts_with(profile, TRACE):
        raise InputError(f"{profile} exists and is not a trace that --profile wrote: give another name.")
    return profile.stat().st_mtime_ns if profile.exists() else 0
