"""How big and how dense a tree of Python files is: python tools/mass.py [FOLDER...]

Words are names, literals, keywords and operators: what a reader takes in, however the lines are packed. Brackets,
commas, colons, dots, docstrings and comments do not count.
"""

import ast
import io
import sys
import tokenize
from pathlib import Path

SPACE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
PUNCTUATION = set("()[]{},:.")
DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def docstring_lines(source: str) -> set[int]:
    lines = set[int]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return lines


def measure(source: str) -> tuple[int, int]:
    """(words, lines of code)."""
    silent = docstring_lines(source)
    words, lines = 0, set[int]()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in SPACE or token.start[0] in silent:
            continue
        lines.update(range(token.start[0], token.end[0] + 1))
        words += token.string not in PUNCTUATION
    return words, len(lines)


if __name__ == "__main__":
    for folder in sys.argv[1:] or ["src", "tests"]:
        measured = [measure(path.read_text()) for path in sorted(Path(folder).rglob("*.py"))]
        words = sum(file_words for file_words, _ in measured)
        lines = sum(file_lines for _, file_lines in measured)
        print(f"{folder}: {words:,} words in {len(measured)} files, {words / max(lines, 1):.1f} words a line")
