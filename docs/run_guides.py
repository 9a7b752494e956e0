"""Runs the commands that the guides show, and renders what they print: `python docs/run_guides.py GUIDE [DATA]`.

Scripts are Python blocks with a title. Commands are the lines of console blocks that begin with `$`. DATA is a folder
that the guide's commands find in the place where they run, under its own name.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

GUIDES = Path(__file__).parent / "guides"
SCRIPT = re.compile(r'^```python title="([\w.]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ (.*)\n", re.MULTILINE)


def write_scripts(text: str, folder: Path) -> None:
    for name, code in SCRIPT.findall(text):
        (folder / name).write_text(code)


def commands(text: str) -> list[tuple[str, str]]:
    """Each command of a guide with the output that is shown below it."""
    shown: list[tuple[str, str]] = []
    for block in CONSOLE.findall(text):
        _, *parts = COMMAND.split(block)
        shown += zip(parts[::2], parts[1::2], strict=True)
    return shown


def rendered(text: str, run: Callable[[str], str]) -> str:
    """The guide with the output of every command as `run` returns it."""

    def block(match: re.Match[str]) -> str:
        lines = "".join(f"$ {command}\n{run(command)}" for command, _ in commands(match[0]))
        return f"```console\n{lines}```"

    return CONSOLE.sub(block, text)


def run_in(folder: Path) -> Callable[[str], str]:
    """Runs a command in the folder, with `cu` and `python` of this environment and without lines of progress."""
    programs = f'cu() {{ "{sys.executable}" -m class_uncertainty "$@"; }}\npython() {{ "{sys.executable}" "$@"; }}\n'

    def run(command: str) -> str:
        environment = os.environ | {"COLUMNS": "80"}
        ended = subprocess.run(
            ["bash", "-c", programs + command], cwd=folder, env=environment, stdout=-1, stderr=-2, text=True
        )
        lines = [line.rstrip() for line in ended.stdout.splitlines() if not re.match(r"\d+:\d\d ", line)]
        return "".join(f"{line}\n" for line in lines)

    return run


def main(name: str, data: str | None = None) -> None:
    guide = GUIDES / f"{name}.md"
    text = guide.read_text()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_scripts(text, folder)
        if data is not None:
            (folder / Path(data).name).symlink_to(Path(data).resolve())
        guide.write_text(rendered(text, run_in(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
