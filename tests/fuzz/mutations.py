"""Valid bytes made wrong: by bits and slices, by numbers in text, by values in JSON."""

import json
import re
from random import Random
from typing import Any

NUMBERS = (
    0,
    1,
    2,
    127,
    128,
    255,
    256,
    2**15,
    2**16 - 1,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**53 + 1,
    2**63 - 1,
    2**63,
    2**64 - 1,
)
WORDS = (
    b"-1",
    b"0",
    b"",
    b"nan",
    b"inf",
    b"-inf",
    b"1e400",
    b"1e39",
    b"1_000",
    b"1,5",
    b"9" * 30,
    b"9" * 5000,
    b"2.5",
    b"0x10",
    b"True",
)
WORDS += (
    b"\x1b[2J",
    b"\xc2\x9b",
    b"\r",
    b"\n",
    b"\0",
    b'"',
    b",",
    b";",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"../..",
    b"=1+1",
    b"[" * 100_000,
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    10**9,
    10**18,
    10**400,
    0.5,
    float("nan"),
    float("inf"),
    1e39,
    "",
    "ab",
    "\ud800",
    "\x1b",
)
VALUES += ([], {}, [[]], [1], ["a"], [None], {"a": 1}, [10**12], ["a", "a"])


def mutated(content: bytes, rng: Random) -> bytes:
    """One to four changes, mostly one."""
    for _ in range(1 + int(rng.expovariate(1.2)) % 4):
        content = rng.choice(WAYS)(content, rng)
    return content


def _slice(content: bytes, rng: Random, most: int = 64) -> tuple[int, int]:
    start = rng.randrange(len(content) + 1)
    return start, min(len(content), start + rng.randint(1, most))


def flip(content: bytes, rng: Random) -> bytes:
    if not content:
        return content
    at = rng.randrange(len(content))
    return content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]


def truncate(content: bytes, rng: Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def delete(content: bytes, rng: Random) -> bytes:
    start, end = _slice(content, rng)
    return content[:start] + content[end:]


def insert(content: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(content) + 1)
    return content[:at] + rng.randbytes(rng.randint(1, 16)) + content[at:]


def repeat(content: bytes, rng: Random) -> bytes:
    start, end = _slice(content, rng, 512)
    return content[:end] + content[start:end] * rng.choice((1, 2, 50)) + content[end:]


def swap(content: bytes, rng: Random) -> bytes:
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    return content[b:] + content[a:b] + content[:a]


def overwrite(content: bytes, rng: Random) -> bytes:
    """A size, an offset or a type, in either order of bytes."""
    at, width = rng.randrange(len(content) + 1), rng.choice((1, 2, 4, 8))
    number = (rng.choice(NUMBERS) % 256**width).to_bytes(width, rng.choice(("little", "big")))
    return content[:at] + number + content[at + width :]


def reword(content: bytes, rng: Random) -> bytes:
    """A number or a word of text, as in a header or a table."""
    places = list(re.finditer(rb"[0-9.]+|[A-Za-z_]+", content[:20_000]))
    if not places:
        return content
    start, end = rng.choice(places).span()
    return content[:start] + rng.choice(WORDS) + content[end:]


def revalue(content: bytes, rng: Random) -> bytes:
    """A value of JSON, at any depth; anything else is reworded."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return reword(content, rng)
    if not isinstance(document, dict | list):
        return reword(content, rng)
    inner = document
    while True:
        keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
        if not keys:
            return content
        key = rng.choice(keys)
        if not isinstance(inner[key], dict | list) or not inner[key] or rng.random() < 0.4:
            break
        inner = inner[key]
    if rng.random() < 0.2:
        del inner[key]
    else:
        inner[key] = rng.choice(VALUES)
    return json.dumps(document).encode()


WAYS = (flip, flip, truncate, delete, insert, repeat, swap, overwrite, overwrite, reword, reword, revalue, revalue)
