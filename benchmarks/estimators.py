"""What a training step of DUQ, mixup or AutoAugment costs beside a plain one: `make bench-estimators`.

By the fastest epoch of each.
"""

import numpy as np

import class_uncertainty as cu

ROUNDS, EPOCHS = 3, 2
METHODS = ("naive", "dropout", "duq", "naive+mixup", "naive+autoaugment+cutout")
CASES = {
    "small-conv": ((1, 8, 8), 1280, 32, 4),
    "resnet32": ((3, 32, 32), 256, 128, 1),
}  # shape, examples, batch, lanes


def main() -> None:
    rng = np.random.default_rng(0)
    for network, (shape, count, batch, lanes) in CASES.items():
        data = cu.Data(rng.integers(0, 256, (count, *shape)).astype(np.uint8), np.arange(count) % 10)
        recipe = cu.Recipe(network, epochs=EPOCHS, batch=batch, crop=1)
        fastest = dict.fromkeys(METHODS, float("inf"))
        for _ in range(ROUNDS):
            for method in METHODS:
                seconds: list[float] = []
                seeded = [cu.Lane(method, seed) for seed in range(lanes)]
                cu.fit(data, seeded, recipe=recipe, progress=lambda news: seconds.append(news.seconds))  # noqa: B023  # it is called at once
                fastest[method] = min(fastest[method], *seconds)
        print(network, ", ".join(f"{method} {time / fastest['naive']:.2f} x" for method, time in fastest.items()))


if __name__ == "__main__":
    main()
