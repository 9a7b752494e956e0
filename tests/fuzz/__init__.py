"""Every reader against damaged files: `python -m fuzz` in tests/, and a little of it in test_fuzz.py."""
