"""Help as plain lines: examples first, then the options that most people need, then the others by subject."""

import inspect
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

WIDEST = 100  # characters of a line
NAME_COLUMN = 28  # characters of an option's name, at most, before what it does
GROUPS = {
    "Start": ("demo", "check", "fix", "predict", "report"),
    "Look closer": ("measure", "compare", "train", "audit", "adjust"),
    "Ship": ("export", "card", "results", "clean"),
    "Paper and reference": ("reproduce", "list", "data"),
}
# options that few people need, by subject; all others come first
SUBJECTS = {
    "Data": ("group", "drop", "missing", "views", "root"),
    "Training": (
        "candidates", "trainings", "seeds", "deploy", "label_issues", "recipe", "epochs", "network", "pretrained",
        "lrs", "members", "estimator", "estimators", "score", "choose_lr", "choose_on", "equal_cost", "against",
        "retrain_older", "embed_weights",
    ),
    "Machine": ("budget", "device", "on", "shard", "store", "profile", "trust_code"),
    "Output": ("quiet", "explain", "force", "as_json", "help"),
}  # fmt: skip


def command_help(command: Any, context: Any, width: int) -> str:
    """How a command is typed, what it does, and its options."""
    params = [param for param in command.get_params(context) if not getattr(param, "hidden", False)]
    arguments = [param for param in params if param.param_type_name == "argument"]
    options = [param for param in params if param.param_type_name == "option"]
    typed = " ".join(["cu", *_path(context), *(_placeholder(param) for param in arguments), "[OPTIONS]"])
    lines = [f"Usage: {typed}", "", *text_lines(command.help or "", width)]
    if arguments:
        lines += ["", *_entries([(_placeholder(param), _about(param)) for param in arguments], width)]
    for subject, members in _by_subject(options).items():
        lines += ["", subject, *_entries([(_option_name(one), _about(one)) for one in members], width)]
    return "\n".join(lines) + "\n"


def group_help(group: Any, context: Any, width: int) -> str:
    """The commands of a group, by what they are for."""
    typed = " ".join(["cu", *_path(context)])
    lines = [f"Usage: {typed} COMMAND [OPTIONS]", "", *text_lines(group.help or "", width)]
    known = {name: command for name, command in group.commands.items() if not command.hidden}
    subjects = GROUPS if known.keys() & set(GROUPS["Start"]) else {"Commands": tuple(known)}
    for subject, names in subjects.items():
        entries = [(name, _summary(known[name])) for name in names if name in known]
        lines += ["", subject, *_entries(entries, width)]
    return "\n".join([*lines, "", f"{typed} COMMAND --help shows the options of a command."]) + "\n"


def text_lines(text: str, width: int) -> list[str]:
    """Paragraphs wrapped, and examples as they are."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text).split("\n\n"):
        if lines:
            lines.append("")
        stripped = [line.strip() for line in paragraph.splitlines()]
        if all(line.startswith(("cu ", "np.")) for line in stripped):
            lines += [f"  {line}" for line in stripped]
        else:
            lines += textwrap.wrap(" ".join(paragraph.split()), width, break_on_hyphens=False)
    return lines


def _path(context: Any) -> list[str]:
    """The names behind 'cu'."""
    names: list[str] = []
    while context.parent is not None:
        names.insert(0, context.info_name)
        context = context.parent
    return names


def _placeholder(param: Any) -> str:
    name = param.metavar or param.name.upper()
    return name if param.required else f"[{name}]"


def _by_subject(options: Iterable[Any]) -> dict[str, list[Any]]:
    """The options under 'Options' and under each subject that has any."""
    subject_of = {name: subject for subject, names in SUBJECTS.items() for name in names}
    found: dict[str, list[Any]] = {"Options": []}
    found |= {subject: [] for subject in SUBJECTS}
    for option in options:
        found[subject_of.get(option.name, "Options")].append(option)
    return {subject: members for subject, members in found.items() if members}


def _option_name(option: Any) -> str:
    """'--label COLUMN', or '--label-issues / --no-label-issues'."""
    names = "/".join([*option.opts, *option.secondary_opts])
    if option.is_flag:
        return names
    return f"{names} {option.metavar or 'NAME'}"


def _about(option: Any) -> str:
    about = (option.help or "").rstrip(".")
    if option.show_default and not getattr(option, "is_flag", False) and option.default is not None:
        return f"{about} (default: {option.default})"
    return about


def _summary(command: Any) -> str:
    """The first paragraph of a command's help."""
    return " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split()).rstrip(".")


def _entries(entries: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Names, and what they are beside them; beside nothing, below, where a name is too long."""
    column = min(max(len(name) for name, _ in entries), NAME_COLUMN)
    lines = []
    for name, about in entries:
        parts = textwrap.wrap(about, width - column - 4, break_on_hyphens=False) or [""]
        if len(name) > column:
            lines.append(f"  {name}")
        else:
            lines.append(f"  {name:<{column}}  {parts.pop(0)}".rstrip())
        lines += [" " * (column + 4) + part for part in parts]
    return lines
