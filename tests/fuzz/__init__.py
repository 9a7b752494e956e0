"""Every reader against files that a person or a disk has changed: `python -m fuzz` in tests/, and a little of it in test_fuzz.py."""
