"""probabilities:FILE, what another program has saved."""

import zipfile
from pathlib import Path

import numpy as np
import pytest
from refusals import refused

import class_uncertainty as cu

N, C = 405, 10


@pytest.fixture(scope="module")
def train():
    return cu.load("digits-lt:20").train


@pytest.fixture
def p(rng):
    """Two members' (T, N, C)."""
    return rng.dirichlet(np.ones(C), (2, N))


def read(path: Path, train: cu.Data, **options) -> cu.Estimate:
    return cu.estimate(train, f"probabilities:{path}", **options)


def test_one_member_or_several(p, train, tmp_path):
    """.npy, or .npz with an array called probabilities or with one only."""
    np.save(tmp_path / "one.npy", p[0])
    np.save(tmp_path / "several.npy", p)
    np.savez(tmp_path / "alone.npz", whatever=p)
    np.savez_compressed(tmp_path / "named.npz", labels=train.labels, probabilities=p[0].astype(np.float32))
    for name, expected in {"one.npy": p[:1], "several.npy": p, "alone.npz": p, "named.npz": p[:1]}.items():
        found = read(tmp_path / name, train)
        assert found.probabilities.shape == expected.shape
        np.testing.assert_allclose(found.probabilities, expected, atol=1e-7)
        np.testing.assert_allclose(found.uncertainty, cu.predictive(expected), atol=1e-6)
        assert (found.estimator, found.cost, found.results, found.class_errors) == (
            f"probabilities:{tmp_path / name}",
            0,
            (),
            None,
        )


def test_half_precision_is_brought_to_sum_1(p, train, tmp_path):
    np.save(tmp_path / "half.npy", p.astype(np.float16))
    np.testing.assert_allclose(read(tmp_path / "half.npy", train).probabilities.sum(axis=-1), 1, atol=1e-6)


def test_any_score_reads_it(p, train, tmp_path):
    np.save(tmp_path / "p.npy", p)
    u = read(tmp_path / "p.npy", train, score="least-confidence").uncertainty
    np.testing.assert_allclose(u, 1 - p.mean(axis=0).max(axis=1), atol=1e-6)


def test_it_is_read_anew(p, train, tmp_path):
    np.save(tmp_path / "p.npy", p)
    before = read(tmp_path / "p.npy", train)
    np.save(tmp_path / "p.npy", p[::-1] ** 2 / (p[::-1] ** 2).sum(axis=-1, keepdims=True))
    assert not np.array_equal(read(tmp_path / "p.npy", train).raw, before.raw)


def test_a_name_with_a_colon_or_a_space(p, train, tmp_path):
    np.save(tmp_path / "a: b.npy", p)
    assert len(read(tmp_path / "a: b.npy", train).probabilities) == 2


def test_no_file(train, tmp_path):
    for name in ("probabilities", "probabilities:"):
        with refused("estimator", repr(name), "probabilities:FILE"):
            cu.estimate(train, name)
    with refused(tmp_path / "none.npy", "does not exist: give probabilities:FILE"):
        read(tmp_path / "none.npy", train)


@pytest.mark.parametrize("shape", [(N,), (N - 1, C), (N, C + 1), (C, N), (2, N - 1, C), (N, 2, C), (1, 2, N, C), ()])
def test_a_wrong_shape_says_what_is_needed(shape, train, tmp_path):
    np.save(tmp_path / "p.npy", np.full(shape, 0.1))
    with refused(tmp_path / "p.npy", f"the shape {shape}", "(405, 10)"):
        read(tmp_path / "p.npy", train)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: 2 * p, "member 0, example 0 sum to 2: every row must sum to 1 (logits need a softmax)"),
        (lambda p: p - 0.5, "it must not be negative"),
        (lambda p: np.where(np.arange(N)[:, None] == 3, np.nan, p), "member 0, example 3 are not finite"),
        (lambda p: np.log(p), "it must not be negative"),
        (
            lambda p: p.argmax(axis=-1)[..., None].repeat(C, axis=-1),
            "probabilities are int64: they must be floating point numbers",
        ),
        (lambda p: np.zeros((0, N, C)), "there must be a member"),
    ],
)
def test_what_is_no_distribution(change, sentence, p, train, tmp_path):
    np.save(tmp_path / "p.npy", change(p))
    with refused(sentence):
        read(tmp_path / "p.npy", train)


def test_what_is_no_file_of_numbers(p, train, tmp_path):
    """Nothing is unpickled, and whatever a file holds it is one sentence."""
    np.save(tmp_path / "whole.npy", p)
    whole = (tmp_path / "whole.npy").read_bytes()
    np.save(tmp_path / "objects.npy", np.full((N, C), {}), allow_pickle=True)
    np.savez(tmp_path / "objects.npz", np.full((N, C), {}))
    (tmp_path / "text.npy").write_text("0.1 0.9\n0.2 0.8\n")
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "cut.npy").write_bytes(whole[:5000])
    for name in ("objects.npy", "objects.npz", "text.npy", "empty.npy", "cut.npy"):
        with refused(tmp_path / name, ".npy or .npz file of numbers"):
            read(tmp_path / name, train)


def test_several_arrays_need_the_name(p, train, tmp_path):
    np.savez(tmp_path / "two.npz", first=p, second=p)
    with refused(tmp_path / "two.npz", "has arrays first, second: one must be called probabilities"):
        read(tmp_path / "two.npz", train)
    with zipfile.ZipFile(tmp_path / "none.npz", "w"):
        pass
    with refused(tmp_path / "none.npz"):
        read(tmp_path / "none.npz", train)
