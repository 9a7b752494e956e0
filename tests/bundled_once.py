"""Vega's scripts, the same on every page, are bundled once in a process of tests: that takes longer than the charts."""

import json
from collections.abc import Callable
from functools import wraps

Answer = tuple[int, bytes, bytes]  # exit code, stdout, stderr
Draw = Callable[[list[str], bytes], Answer]
SCRIPT = ["js", {}]


def bundled_once(draw: Draw) -> Draw:
    """The process that draws: it is asked for the scripts only by the first page that it ends well for."""
    kept: dict[str, str] = {}

    @wraps(draw)
    def drawn(command: list[str], document: bytes) -> Answer:
        given = json.loads(document)
        version, requests = given["version"], given["requests"]
        places = [place for place, request in enumerate(requests) if request == SCRIPT and version in kept]
        asked = [request for place, request in enumerate(requests) if place not in places]
        code, answer, errors = draw(command, json.dumps({"version": version, "requests": asked}).encode())
        if code:
            return code, answer, errors
        images = json.loads(answer)
        if SCRIPT in asked:
            kept[version] = images[asked.index(SCRIPT)]
        for place in places:
            images.insert(place, kept[version])
        return code, json.dumps(images).encode(), errors

    return drawn
