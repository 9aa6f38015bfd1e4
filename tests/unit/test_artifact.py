"""A fitted surrogate on disk is written the same each time, and read only when everything about it is right."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hermes.routing import artifact
from hermes.routing.artifact import ARRAYS, ArtifactInvalid
from hermes.routing.features import SURFACE

ABOUT = {"calibration": {"slope": 1.5, "offset": 0.25}, "thresholds": {"complex": 0.4, "accept": 0.9}}
VOCABULARY = {"words": ["design", "hi"], "pieces": [" h", "hi", "i "]}


def arrays(**changes: Any) -> dict[str, Any]:
    words, pieces, surface = np.ones(2), np.ones(3), np.ones(len(SURFACE))
    values = (words, words, pieces, pieces, surface, surface, surface, np.float64(0.5))
    return {**dict(zip(ARRAYS, values, strict=True)), **changes}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    artifact.write(tmp_path / "fitted", ABOUT, VOCABULARY, arrays())
    return tmp_path / "fitted"


def replace(directory: Path, name: str, content: bytes) -> None:
    """Puts another file in place and makes the manifest agree with it."""
    (directory / name).write_bytes(content)
    manifest = json.loads((directory / "manifest.json").read_text())
    manifest["files"][name] = {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    (directory / "manifest.json").write_text(json.dumps(manifest))


def npz(**values: Any) -> bytes:
    packed = io.BytesIO()
    np.savez(packed, **values)
    return packed.getvalue()


def amend(directory: Path, change: Callable[[dict[str, Any]], object]) -> None:
    manifest = json.loads((directory / "manifest.json").read_text())
    change(manifest)
    (directory / "manifest.json").write_text(json.dumps(manifest))


def test_what_was_written_is_read(directory: Path) -> None:
    found = artifact.read(directory)

    assert found.vocabulary == VOCABULARY
    assert (found.slope, found.offset, found.complex_from, found.accept_from) == (1.5, 0.25, 0.4, 0.9)
    assert {name: values.shape for name, values in found.weights.items()} == {
        name: np.shape(values) for name, values in arrays().items()
    }


def test_the_same_values_give_the_same_bytes(directory: Path, tmp_path: Path) -> None:
    artifact.write(tmp_path / "again", ABOUT, VOCABULARY, arrays())

    for name in ("manifest.json", *artifact.FILES):
        assert (directory / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    assert artifact.digest(directory) == artifact.digest(tmp_path / "again")


@pytest.mark.parametrize("name", ["manifest.json", *artifact.FILES])
def test_a_missing_file_is_refused(directory: Path, name: str) -> None:
    (directory / name).unlink()

    with pytest.raises(ArtifactInvalid, match=name):
        artifact.read(directory)


@pytest.mark.parametrize("name", artifact.FILES)
def test_a_file_with_one_other_byte_is_refused_before_it_is_parsed(directory: Path, name: str) -> None:
    content = bytearray((directory / name).read_bytes())
    content[len(content) // 2] ^= 1
    (directory / name).write_bytes(bytes(content))

    with pytest.raises(ArtifactInvalid, match=rf"{name}: the SHA-256"):
        artifact.read(directory)


def _without_files(manifest: dict[str, Any]) -> None:
    del manifest["files"]


def _with_another_file(manifest: dict[str, Any]) -> None:
    manifest["files"]["../../etc/passwd"] = manifest["files"]["weights.npz"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param(lambda m: m.update(format="hermes-surrogate/2"), "format", id="another format"),
        pytest.param(lambda m: m.update(features="0:abc"), "other features", id="other features"),
        pytest.param(lambda m: m.update(thresholds={"complex": 0.5}), "accept", id="no threshold"),
        pytest.param(lambda m: m.update(thresholds={"complex": 0.5, "accept": True}), "accept", id="a truth value"),
        pytest.param(lambda m: m.update(thresholds=[0.5]), "thresholds", id="a list"),
        pytest.param(lambda m: m.update(calibration={"slope": float("nan"), "offset": 0}), "slope", id="not a number"),
        pytest.param(lambda m: m["files"].update({"weights.npz": "abc"}), "SHA-256", id="no hash"),
        pytest.param(_without_files, "files", id="no files"),
        pytest.param(_with_another_file, "files", id="a file elsewhere"),
    ],
)
def test_a_manifest_that_says_something_else_is_refused(
    directory: Path, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    amend(directory, change)

    with pytest.raises(ArtifactInvalid, match=why):
        artifact.read(directory)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b"\xff", b"[" * 100_000])
def test_a_manifest_that_is_no_json_object_is_refused(directory: Path, content: bytes) -> None:
    (directory / "manifest.json").write_bytes(content)

    with pytest.raises(ArtifactInvalid, match=r"manifest\.json"):
        artifact.read(directory)


class Evil:
    """A pickle of this would run code when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("code of a file was run",))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(pickle.dumps(Evil()), id="a pickle"),
        pytest.param(npz(**arrays(bias=np.array(Evil(), dtype=object))), id="an array of objects"),
        pytest.param(npz(), id="no arrays"),
        pytest.param(b"PK\x03\x04 torn", id="half a zip file"),
        pytest.param(npz(**arrays(words_idf=np.ones(3))), id="more weights than words"),
        pytest.param(npz(**arrays(pieces_weight=np.ones((3, 1)))), id="another shape"),
        pytest.param(npz(**arrays(surface_mean=np.ones(2))), id="another surface"),
        pytest.param(npz(**arrays(surface_scale=np.zeros(len(SURFACE)))), id="a scale of zero"),
        pytest.param(npz(**arrays(words_weight=np.array([np.inf, 1.0]))), id="infinite"),
        pytest.param(npz(**arrays(bias=np.array(["text"]))), id="text"),
        pytest.param(npz(**arrays(bias=np.ones(2))), id="two biases"),
    ],
)
def test_weights_that_are_none_are_refused_even_with_the_right_hash(directory: Path, content: bytes) -> None:
    replace(directory, "weights.npz", content)

    with pytest.raises(ArtifactInvalid, match=r"weights\.npz"):
        artifact.read(directory)


@pytest.mark.parametrize(
    "vocabulary",
    [
        pytest.param({"words": ["a", "b"]}, id="one table only"),
        pytest.param({"words": ["a", 1], "pieces": ["a", "b", "c"]}, id="a number"),
        pytest.param({"words": ["a", "a"], "pieces": ["a", "b", "c"]}, id="a term twice"),
        pytest.param({"words": "ab", "pieces": ["a", "b", "c"]}, id="text for a list"),
        pytest.param([1], id="a list"),
    ],
)
def test_a_vocabulary_that_is_none_is_refused_even_with_the_right_hash(directory: Path, vocabulary: object) -> None:
    replace(directory, "vocabulary.json", json.dumps(vocabulary).encode())

    with pytest.raises(ArtifactInvalid, match=r"vocabulary\.json"):
        artifact.read(directory)


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(directory: Path) -> None:
    packed = io.BytesIO()
    np.savez_compressed(packed, bias=np.zeros(artifact.MOST_BYTES + 1, np.uint8))
    replace(directory, "weights.npz", packed.getvalue())

    with pytest.raises(ArtifactInvalid, match="larger than any surrogate"):
        artifact.read(directory)


def test_the_directory_that_counts_is_the_folder_or_the_one_its_pointer_names(directory: Path, tmp_path: Path) -> None:
    assert artifact.locate(directory) == directory

    (tmp_path / "current").write_text("fitted\n")
    assert artifact.locate(tmp_path) == directory


def test_nothing_there_is_no_error(tmp_path: Path) -> None:
    assert artifact.locate(tmp_path / "absent") is None
    assert artifact.locate(tmp_path) is None


@pytest.mark.parametrize("name", ["", "absent", "../fitted", "/etc", ".", "a/b", "x\0y"])
def test_a_pointer_to_nowhere_is_refused(directory: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "current").write_text(name)

    with pytest.raises(ArtifactInvalid, match="names no fitted surrogate"):
        artifact.locate(tmp_path)


def test_a_folder_with_something_else_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pipeline.joblib").write_bytes(b"x")

    for path in (tmp_path, tmp_path / "pipeline.joblib"):
        with pytest.raises(ArtifactInvalid, match="holds no manifest"):
            artifact.locate(path)
