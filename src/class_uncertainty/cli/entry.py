"""Where `cu` begins: Ctrl-C and SIGTERM are heard before anything that takes time is imported."""

from class_uncertainty.cli.interrupts import exit_when_interrupted


def main() -> None:
    """Import the command line, and run it."""
    exit_when_interrupted()
    from class_uncertainty.cli.app import main as run_command

    run_command()
