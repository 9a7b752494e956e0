"""The process that draws charts, run as a script: (format, spec) pairs as JSON on stdin, their pictures in base64 as JSON on stdout.

It imports nothing of the package: what it needs besides vl-convert is Python's own, so that it starts at once.
"""

import json
import os
import sys
from base64 import b64encode
from importlib import import_module
from typing import Any


def main() -> None:
    vl_convert: Any = import_module("vl_convert")
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints is no part of the answer
    request = json.load(sys.stdin)
    version = request["version"]
    formats = {
        "svg": lambda spec: vl_convert.vegalite_to_svg(spec, vl_version=version).encode(),
        "png": lambda spec: vl_convert.vegalite_to_png(spec, vl_version=version, scale=2),
        "js": lambda spec: vl_convert.javascript_bundle(vl_version=version).encode(),
    }
    pictures = [b64encode(formats[kind](spec)).decode() for kind, spec in request["pictures"]]
    with answer:
        json.dump(pictures, answer)


if __name__ == "__main__":
    main()
