"""Two processes of torch.distributed over gloo, as a launcher would start them; each writes what it drew to a file."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

WORLD = 2
SECONDS = 300


def run_in_two(script: str, folder: Path) -> list[Any]:
    """Run a script with `rank` and `report(value)` in each of two processes -> what they reported, by rank."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    header = (
        "import json, os, warnings\nwarnings.simplefilter('ignore')\nrank = int(os.environ['RANK'])\n"
        "def report(value):\n    open(f'reported-{rank}.json', 'w').write(json.dumps(value))\n"
    )
    (folder / "script.py").write_text(header + script)
    started = []
    for rank in range(WORLD):
        about = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": WORLD, "LOCAL_WORLD_SIZE": WORLD, "OMP_NUM_THREADS": 1}
        about |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "NODE_RANK": 0, "GROUP_RANK": 0}
        about |= {"ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}
        environment = os.environ | {name: str(value) for name, value in about.items()}
        with open(folder / f"output-{rank}.txt", "w") as output:
            command = [sys.executable, "script.py"]
            started.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=output))
    try:
        codes = [process.wait(SECONDS) for process in started]
    finally:
        for process in started:
            process.kill()
    assert codes == [0] * WORLD, "\n".join((folder / f"output-{rank}.txt").read_text()[-2000:] for rank in range(WORLD))
    return [json.loads((folder / f"reported-{rank}.json").read_text()) for rank in range(WORLD)]
