"""The cache of decoded pictures: decoded once, never stale, never half there, and shared by processes."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from data.cached.builds import CLASSES, LABELS, OTHER, PIXELS, Build, Decoding, cached, check, entry, later, module

# Decoded once.


def test_a_second_load_decodes_nothing(cache, file):
    first, second = Build(), Build(OTHER)
    check(cached("pictures", [file], first, size=4))
    check(cached("pictures", [file], second, size=4))
    assert (first.calls, second.calls) == (1, 0)
    assert not entry(cache).name.endswith(".partial")


def test_features_are_cached_like_pixels(file):
    features = PIXELS[..., 0, 0].astype("<f4") / 3

    def build():
        return Decoding(LABELS, CLASSES, features.shape[1:], iter([features[:3], features[3:]]), dtype="<f4")

    for _ in range(2):
        data = cached("features", [file], build)
        assert data.inputs.dtype == np.float32
        assert np.array_equal(data.inputs, features)
        assert data.labels.tolist() == LABELS.tolist()


def test_what_is_skipped_is_kept_with_the_rest(file):
    skipped = {1: "1.png cannot be read.", 6: "6.png cannot be read."}
    read = [i for i in range(7) if i not in skipped]

    def build():
        return Decoding(LABELS, CLASSES, PIXELS.shape[1:], iter([PIXELS[read]]), skipped=skipped)

    for _ in range(2):
        data, left_out = module.cached_readable("pictures", [file], build)
        assert np.array_equal(data.inputs, PIXELS[read])
        assert data.labels.tolist() == LABELS[read].tolist()
        assert left_out == skipped


def test_pixels_are_mapped_not_read(file):
    array = cached("pictures", [file], Build()).inputs
    while not isinstance(array, np.memmap):
        array = array.base
        assert array is not None


def test_writing_into_the_pixels_leaves_the_file_as_it_is(cache, file):
    """torch warns of arrays that cannot be written into, and a warning is an error here."""
    data = cached("pictures", [file], Build())
    before = entry(cache).read_bytes()
    torch.from_numpy(data.inputs).zero_()
    assert not data.inputs.any()
    assert entry(cache).read_bytes() == before
    check(cached("pictures", [file], Build(OTHER)))


def test_pixels_stay_when_the_cache_is_emptied(cache, file):
    """On the systems we run on, a mapped file lives until the last reader lets go."""
    data = cached("pictures", [file], Build())
    entry(cache).unlink()
    check(data)


def test_a_relative_folder(tmp_path, monkeypatch, file):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CLASS_UNCERTAINTY_CACHE", "here/deeper")
    check(cached("pictures", [file], Build()))
    again = Build(OTHER)
    check(cached("pictures", [Path("source.bin")], again))  # the same file by another name
    assert again.calls == 0
    assert len(list((tmp_path / "here" / "deeper").iterdir())) == 1


def test_the_folder_where_none_is_named(tmp_path, monkeypatch, file):
    monkeypatch.delenv("CLASS_UNCERTAINTY_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    cached("pictures", [file], Build())
    assert len(list((tmp_path / "xdg" / "class-uncertainty" / "decoded").iterdir())) == 1


# Never stale.


def same_size(file, before):
    file.write_bytes(b"SOME CONTENT")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))


def other_size(file, before):
    file.write_bytes(b"some content and more")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def in_place_with_the_old_time(file, before):
    file.write_bytes(b"SOME CONTENT")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced_with_the_old_time(file, before):
    new = file.with_name("new")
    in_place_with_the_old_time(new, before)
    os.replace(new, file)


@pytest.mark.parametrize("change", [same_size, other_size, in_place_with_the_old_time, replaced_with_the_old_time])
def test_a_changed_source_is_decoded_again(file, change):
    cached("pictures", [file], Build())
    later(change, file)
    check(cached("pictures", [file], Build(OTHER)), OTHER)


def test_every_file_counts_and_their_order_too(tmp_path, file):
    other = tmp_path / "other.bin"
    other.write_bytes(b"some content")
    builds = [Build() for _ in range(5)]
    for files, build in zip(([file], [other], [file, other], [other, file], [file, other]), builds, strict=True):
        cached("pictures", files, build)
    assert [build.calls for build in builds] == [1, 1, 1, 1, 0]


def test_every_option_counts_and_the_name_too(cache, file):
    asked = [
        ("a", {}),
        ("b", {}),
        ("a", {"size": 4}),
        ("a", {"size": 5}),
        ("a", {"side": 4}),
        ("a", {"size": "4"}),
        ("a", {"size": None}),
    ]
    for i, (what, options) in enumerate(asked):
        check(cached(what, [file], Build(PIXELS + np.uint8(i)), **options), PIXELS + np.uint8(i))
    for i, (what, options) in enumerate(asked):
        check(cached(what, [file], Build(OTHER), **options), PIXELS + np.uint8(i))
    assert len(list(cache.iterdir())) == len(asked)


def test_the_order_of_options_does_not_count(file):
    again = Build()
    cached("pictures", [file], Build(), size=4, channels=3)
    cached("pictures", [file], again, channels=3, size=4)
    assert again.calls == 0


# Progress.


def test_progress_is_told_after_every_batch(file):
    told = []
    cached("pictures", [file], Build(), lambda *news: told.append(news))
    assert told == [("pictures", 3, 7), ("pictures", 6, 7), ("pictures", 7, 7)]


def test_progress_is_silent_where_nothing_is_decoded(file):
    told = []
    cached("pictures", [file], Build())
    cached("pictures", [file], Build(), lambda *news: told.append(news))
    assert told == []
