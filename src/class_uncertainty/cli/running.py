"""A command at work: an open store, progress on stderr, text or JSON on stdout, a Ctrl-C that loses nothing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from class_uncertainty.cli.interrupts import exit_code
from class_uncertainty.cli.options import Command
from class_uncertainty.data import Dataset
from class_uncertainty.data.data_check import check_dataset, notes
from class_uncertainty.data.spec import LITE0, paths_named
from class_uncertainty.errors import InputError, ShardEnded, Unfinished, memory_faults
from class_uncertainty.io import check_unread, origin
from class_uncertainty.limits import check_address_space
from class_uncertainty.reporting import terminal
from class_uncertainty.reporting.news_view import print_news
from class_uncertainty.reporting.progress import LiveProgress
from class_uncertainty.reporting.section import describe_data
from class_uncertainty.reporting.terminal import Verbosity
from class_uncertainty.runs import Store
from class_uncertainty.runs.context import checkpoints_beside
from class_uncertainty.runs.settings import Shared
from class_uncertainty.text import amount_of, tell
from class_uncertainty.training import Recipe, default_recipe
from class_uncertainty.training.deadline import Deadline
from class_uncertainty.training.fit import resolve_device
from class_uncertainty.training.networks.network_table import find_network, sealed_as_named
from class_uncertainty.training.networks.user_code import trust
from class_uncertainty.workflows.load_named import PIXELS, load_named, with_backbone

FINE_TUNE = "fine-tune"  # the recipe for images and pretrained weights
FEATURES = "features by "  # how the progress of embedding begins


class Known(Shared):
    """What a command passes to a workflow beside its own arguments."""

    recipe: Recipe


@dataclass(frozen=True, eq=False)
class Running:
    """A command whose store is open."""

    command: Command
    recipe: str | None  # its name; None for the data's own
    changes: dict[str, Any]  # of the recipe
    store: Store
    deadline: Deadline
    watch: LiveProgress
    about_data: list[str] = field(default_factory=list)  # not printed yet

    @property
    def verbosity(self) -> Verbosity:
        """How much is printed for people."""
        return Verbosity.of(self.command.verbose, self.command.quiet)

    @property
    def room(self) -> tuple[Verbosity, int]:
        """How much is printed for people, and in how many columns."""
        return self.verbosity, terminal.line_width()

    def say(self, *lines: str) -> None:
        """Print lines before the answer; silent with --json or --quiet."""
        if not self.command.as_json and not self.command.quiet:
            terminal.say(*lines, width=terminal.line_width())

    def announce(self) -> None:
        """Print the notes on the data: before anything trains, but not if the command is refused."""
        if self.command.as_json:
            for line in self.about_data:
                if line.startswith("!"):
                    tell(line)
        elif self.about_data:
            self.say(*self.about_data)
        self.about_data.clear()

    def show_lines(self, lines: Sequence[str]) -> None:
        """Print the answer and, with --explain, what its words mean; silent with --json."""
        self.announce()
        self.watch.news.clear()  # a command that is stopped after its answer does not repeat it
        if not self.command.as_json:
            terminal.show_lines(lines, self.command.explain)

    @contextmanager
    def loader(self, read: Callable[..., Dataset] = load_named) -> Iterator[Callable[..., Dataset]]:
        """From the data folder, with a progress bar for images."""
        with terminal.progress_bars("images") as bars:

            def show(what: str, done: int, total: int) -> None:
                bars(what if what.startswith(FEATURES) else f"decoding {what}", done, total)

            yield partial(read, root=self.command.root, progress=show)

    def prepare(self, data: str, prefix: str = "", writes: Iterable[Path] = ()) -> tuple[Dataset, Known]:
        """The data set, and what a workflow is to know; `prefix` begins every note on the data.

        What the command `writes` must be nothing that it reads.
        """
        self.watch.open()  # reading large data takes time too
        command = self.command
        if command.network is not None and command.backbone not in (None, PIXELS):
            raise InputError(f"--network is {command.network!r} and --backbone {command.backbone!r}: give one of them.")
        used = [command.store, *paths_named(data, command.network, command.backbone, root=command.root)]
        for file in (*writes, command.profile):
            if file:
                check_unread(file, used)
        if network := self.changes.get("network"):
            trust(network)
            find_network(network)  # refuses one that there is not, before data are read
        from_pixels = command.recipe is not None or command.network is not None or command.pretrained
        named_data = with_backbone(data, command.backbone, command.views, from_pixels, command.root)
        trust(named_data.backbone)
        with self.loader() as load_data:
            dataset = load_data(named_data)
        self.about_data.append(f"{prefix}{describe_data(dataset)}")
        self.about_data.extend(notes(check_dataset(dataset), data))
        chose_nothing = command.backbone is None and not from_pixels
        if chose_nothing and dataset.train.is_images and named_data.spec.name == "folder":
            self.about_data.append(f"! networks train from pixels; for few images, --backbone {LITE0} is often better.")
        name = self.recipe
        if command.pretrained and name is None and dataset.train.is_images:
            name = FINE_TUNE
        return dataset, {
            "recipe": sealed_as_named(default_recipe(dataset.train, name, **self.changes)),
            "store": self.store,
            "device": command.device,
            "budget": self.deadline,
            "progress": self.watch,
            "profile": command.profile,
            "force": command.force,
            "on": command.on,
        }

    def answer(self, document: dict[str, Any]) -> None:
        """For programs; silent where people read."""
        if self.command.as_json:
            terminal.print_json(document)

    def page_mark(self, page: Path | None, dataset: Dataset, *asked: object) -> str:
        """The mark of a page's origin, once its place has been checked."""
        from class_uncertainty.reporting.page import check_place

        read = paths_named(dataset.name, self.command.network, self.command.backbone, root=self.command.root)
        made_from = origin(dataset.name, read, *asked)
        if page:
            check_place(page, made_from, self.command.force, [*read, self.command.store])
        return made_from

    def show_news(self) -> None:
        """What is known of a workflow that was stopped; JSON is printed only for finished ones."""
        if not self.command.as_json:
            print_news(self.watch.news)


@contextmanager
def open_running(
    command: Command, recipe: str | None, changes: dict[str, Any], budget: float | None, create: bool
) -> Iterator[Running]:
    """A command that says, when it is stopped or short of memory, what is kept and how to go on."""
    deadline = Deadline.after(budget)
    check_address_space()
    if command.device is not None and command.on is None:
        resolve_device(command.device)  # refuses one that there is not, before data are read
    profile = command.profile
    written = _written(profile)
    with Store(command.store, create) as store:
        watch = LiveProgress()
        running = Running(command, recipe, changes, store, deadline, watch)
        watch.before_training = running.announce
        try:
            with memory_faults(lambda: _kept(store)):
                try:
                    yield running
                finally:
                    running.watch.close()
            if profile and _written(profile) == written:
                tell(f"nothing was trained, so {profile} was not written.")
        except KeyboardInterrupt:
            running.show_news()
            tell(f"stopped{_kept(store)}.", start="\n")  # after the ^C that a terminal shows
            raise SystemExit(exit_code()) from None
        except ShardEnded as ended:
            tell(f"{ended}.")
        except Unfinished as unfinished:
            running.show_news()
            tell(f"{unfinished}{_kept(store)}.")
            raise SystemExit(3) from None


def _kept(store: Store) -> str:
    """'; runs.sqlite keeps ...', and "" where nothing is kept."""
    under_way = ", checkpoints keep what has not" if checkpoints_beside(store).count() else ""
    if not (store.finished or store.networks or under_way):
        return ""
    results = amount_of(store.finished, "result", "results")
    networks = amount_of(store.networks, "network", "networks")
    kept = f"{store.path} keeps what has finished ({results}, {networks}){under_way}"
    return f"; {kept}, and the same command goes on from there"


def _written(profile: Path | None) -> int:
    """When a trace was last written; 0 where there is none."""
    return profile.stat().st_mtime_ns if profile and profile.exists() else 0
