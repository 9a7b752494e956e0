"""What was typed after `cu` and does not fit its commands is refused as any other wrong input is: in one sentence.

Typer would print the usage, a hint and a box around its message.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from class_uncertainty.errors import InputError, unknown

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


def _within(sentence: str) -> str:
    """As it stands behind a colon."""
    return sentence[:1].lower() + sentence[1:]


class Command(TyperCommand):
    """A command that refuses wrong arguments and options in one sentence."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with in_one_sentence(ctx, tuple(args)):
            return super().parse_args(ctx, args)


class Group(TyperGroup):
    """Commands under one name. Without arguments it shows its help."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            return super().parse_args(ctx, args)
        with in_one_sentence(ctx, tuple(args)):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise unknown("command", args[0], self.commands)
        return super().resolve_command(ctx, args)
