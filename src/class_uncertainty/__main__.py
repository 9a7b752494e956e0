"""`python -m class_uncertainty` is `cu`."""

from class_uncertainty.cli.entry import main

if __name__ == "__main__":
    main()
