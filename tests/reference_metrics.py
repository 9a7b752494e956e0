"""Metrics as plain loops."""


def reference_ece(confidence, correct, bins):
    """Guo et al. 2017: bins (k / M, (k + 1) / M], one at a time."""
    total = 0.0
    for k in range(bins):
        inside = [i for i, c in enumerate(confidence) if k / bins < c <= (k + 1) / bins]
        if inside:
            accuracy = sum(correct[i] for i in inside) / len(inside)
            mean = sum(confidence[i] for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(accuracy - mean)
    return 100 * total
