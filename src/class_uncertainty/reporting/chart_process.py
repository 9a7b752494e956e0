"""The process that draws charts: reads (format, spec) pairs as JSON from stdin, writes images in base64 as JSON.

It is run as a script and imports nothing of the package, so that it starts at once.
"""

import json
import os
import sys
from base64 import b64encode
from importlib import import_module
from typing import Any


def main() -> None:
    vl_convert: Any = import_module("vl_convert")
    stdout = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints goes to stderr, not into the answer
    request = json.load(sys.stdin)
    version = request["version"]
    formats = {
        "svg": lambda spec: vl_convert.vegalite_to_svg(spec, vl_version=version).encode(),
        "png": lambda spec: vl_convert.vegalite_to_png(spec, vl_version=version, scale=2),
        "js": lambda spec: vl_convert.javascript_bundle(vl_version=version).encode(),
    }
    images = [b64encode(formats[kind](spec)).decode() for kind, spec in request["requests"]]
    with stdout:
        json.dump(images, stdout)


if __name__ == "__main__":
    main()
