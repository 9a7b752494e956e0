"""The command line `cu`: a thin shell over the workflows. Torch and the like are imported when a command needs them."""

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from class_uncertainty.cli import results_commands
from class_uncertainty.cli.adjust_command import adjust
from class_uncertainty.cli.audit_command import audit
from class_uncertainty.cli.card_command import card
from class_uncertainty.cli.check_command import check
from class_uncertainty.cli.clean_command import clean
from class_uncertainty.cli.compare_command import compare
from class_uncertainty.cli.demo_command import demo
from class_uncertainty.cli.export_command import export
from class_uncertainty.cli.fetch_command import fetch
from class_uncertainty.cli.fix_command import fix
from class_uncertainty.cli.help import WIDEST, command_help, group_help
from class_uncertainty.cli.interrupts import exit_code, interrupt_once
from class_uncertainty.cli.list_commands import list_
from class_uncertainty.cli.measure_command import measure
from class_uncertainty.cli.predict_command import predict
from class_uncertainty.cli.report_command import report
from class_uncertainty.cli.reproduce_command import reproduce
from class_uncertainty.cli.train_command import train
from class_uncertainty.errors import InputError, MachineFault, memory_faults, unknown
from class_uncertainty.text import encode_plainly, outlive_readers, reason, tell

# the errors of click, which newer versions of typer contain and older ones import
CLICK = sys.modules[typer.BadParameter.__module__]
ALIKE = 0.7  # from where on options are alike: their dashes are, whatever follows


@contextmanager
def in_one_sentence(context: Any, typed: Sequence[str]) -> Iterator[None]:
    """Turn a usage error into an InputError: what was given or is missing, and what the command takes."""
    root, params = context.find_root().info_name, context.command.get_params(context)
    command = f"cu{context.command_path.removeprefix(root)}"  # root is 'python -m class_uncertainty' or so
    try:
        yield
    except CLICK.NoSuchOption as error:
        options = [one for one in params if one.param_type_name == "option" and not one.hidden]
        names = [name for one in options for name in (*one.opts, *one.secondary_opts)]
        short = error.option_name  # '-m' of '-methods'
        given = next((word for word in typed if word.startswith(short)), short)
        raise unknown(f"option of '{command}'", given.partition("=")[0], names, ALIKE) from None
    except CLICK.MissingParameter as error:
        name = error.param.metavar.removesuffix("...")
        raise InputError(f"'{command}' needs {name}: {_within(error.param.help)}") from None
    except CLICK.BadOptionUsage as error:
        about = next((one.help for one in params if error.option_name in one.opts), "")
        raise InputError(f"{_within(error.format_message()).rstrip('.')}: {_within(about)}") from None
    except CLICK.UsageError as error:
        message = error.format_message().rstrip(".")
        if beyond := re.fullmatch(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message):
            places = [one.metavar for one in params if one.param_type_name == "argument"]
            takes = f"takes {' and '.join(places) or 'no argument'}"
            lists = "names in a list have commas and no spaces between them"
            raise InputError(f"'{command}' {takes}, and got {beyond[1]!r} beyond that: {lists}.") from None
        raise InputError(f"{_within(message)}: '{command} --help' shows what is allowed.") from None


def _help_width() -> int:
    return min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)


def _within(sentence: str) -> str:
    """As it stands behind a colon."""
    return sentence[:1].lower() + sentence[1:]


class Command(TyperCommand):
    """A command that refuses wrong arguments and options in one sentence."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(command_help(self, ctx, _help_width()))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with in_one_sentence(ctx, tuple(args)):
            return super().parse_args(ctx, args)


class Group(TyperGroup):
    """Commands under one name. Without arguments it shows its help."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(group_help(self, ctx, _help_width()))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            typer.echo(ctx.get_help())
            ctx.exit()
        with in_one_sentence(ctx, tuple(args)):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="""See which classes a classifier under-serves and why, and fix it.

        cu demo
        cu fix photos --save model
        cu predict model new-photos
    """,
)
data_app = typer.Typer(cls=Group, no_args_is_help=True, help="Download data sets.")
SAVED = (predict, adjust, audit, card, export)  # commands on what was saved
for command in (demo, check, measure, compare, train, report, fix, *SAVED, reproduce, clean):
    app.command(cls=Command)(command)
app.command("list", cls=Command)(list_)
data_app.command(cls=Command)(fetch)
app.add_typer(data_app, name="data")
results_app = typer.Typer(cls=Group, no_args_is_help=True, help="Exchange results between stores.")
results_app.command(cls=Command)(results_commands.export)
results_app.command("import", cls=Command)(results_commands.import_)
app.add_typer(results_app, name="results")


def _print_version(wanted: bool) -> None:
    if wanted:
        from class_uncertainty import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


class _Notices(logging.Handler):
    """Prints what the package logs, a line each on the stderr of the moment: a live table may have taken its place."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(record.getMessage())


def main() -> None:
    """Run a command.

    Exit code 2: wrong input, 1: a fault of the machine, 3: a spent budget, 4: a broken gate or a problem of the data,
    130 and 143: a signal.
    """
    encode_plainly()
    outlive_readers()
    notices = logging.getLogger("class_uncertainty")
    notices.handlers, notices.propagate = [_Notices()], False
    try:
        with interrupt_once(), memory_faults():
            app()
    except KeyboardInterrupt:  # just as the command has ended
        sys.exit(exit_code())
    except InputError as error:
        _end(error, 2)
    except MachineFault as error:
        _end(error, 1)
    except OSError as error:
        place = "output" if error.filename is None else os.fsdecode(error.filename)
        _end(f"{place}: {error.strerror or reason(error)}.", 1)
    except UnicodeEncodeError as error:
        _end(f"{error.object!r} is not text that can be written as {error.encoding}: give it another name.", 2)


def _end(sentence: object, code: int) -> None:
    tell(sentence)
    sys.exit(code)


if __name__ == "__main__":
    main()
