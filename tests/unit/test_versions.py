"""Versions of the surrogate: whole or not there, one in force, the last few kept."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.policy import SurrogatePolicy
from hermes.routing.surrogates import STARTER, Surrogates
from hermes.routing.versions import VersionRefused, Versions
from hermes.settings import ROOT

NAMES = [f"2026051{day}T000000Z-abcdef" for day in range(8)]


def copied(directory: Path) -> None:
    shutil.copytree(STARTER, directory, dirs_exist_ok=True)


def nothing(directory: Path) -> None:
    return None


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    return Versions(tmp_path / "surrogate")


def add(versions: Versions, *names: str) -> None:
    for name in names:
        versions.put_in_force(versions.add(name, copied, nothing))


def test_before_the_first_one_the_starter_decides(versions: Versions) -> None:
    assert (versions.current(), versions.names()) == (None, [])


def test_a_version_decides_when_it_is_put_in_force_and_not_before(versions: Versions) -> None:
    name = versions.add(NAMES[0], copied, nothing)

    assert (versions.names(), versions.current()) == ([name], None)
    versions.put_in_force(name)
    assert versions.current() == name


def test_what_fails_its_check_leaves_nothing(versions: Versions) -> None:
    def check(directory: Path) -> None:
        raise ValueError(directory.name)

    with pytest.raises(ValueError, match="unfinished"):
        versions.add(NAMES[0], copied, check)

    assert list(versions.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("dies", "current"),
    [
        pytest.param("while a version is written", NAMES[0], id="while a version is written"),
        pytest.param("before the pointer is replaced", NAMES[0], id="before the pointer is replaced"),
        pytest.param("after the pointer is replaced", NAMES[1], id="after the pointer is replaced"),
    ],
)
def test_a_process_that_is_killed_leaves_a_whole_version_in_force(versions: Versions, dies: str, current: str) -> None:
    add(versions, NAMES[0])
    program = (
        "import os, shutil, signal, sys\n"
        "from pathlib import Path\n"
        "from hermes.routing.surrogates import STARTER\n"
        "from hermes.routing.versions import Versions\n"
        "folder, name, dies = sys.argv[1:]\n"
        "def die(moment):\n"
        "    if moment == dies:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "def write(directory):\n"
        "    shutil.copy(STARTER / 'manifest.json', directory)\n"
        "    die('while a version is written')\n"
        "    shutil.copytree(STARTER, directory, dirs_exist_ok=True)\n"
        "def replace(old, new, real=os.replace):\n"
        "    die('before the pointer is replaced')\n"
        "    real(old, new)\n"
        "    die('after the pointer is replaced')\n"
        "os.replace = replace\n"
        "versions = Versions(Path(folder))\n"
        "versions.put_in_force(versions.add(name, write, lambda directory: None))\n"
    )

    victim = subprocess.run(
        [sys.executable, "-c", program, str(versions.folder), NAMES[1], dies], cwd=ROOT, check=False
    )

    assert victim.returncode == -signal.SIGKILL
    assert versions.current() == current
    assert (versions.folder / current / "manifest.json").read_bytes() == (STARTER / "manifest.json").read_bytes()
    add(versions, NAMES[2])
    assert versions.current() == NAMES[2]


def test_two_of_one_name_are_two(versions: Versions) -> None:
    assert versions.add(NAMES[0], copied, nothing) == NAMES[0]
    assert versions.add(NAMES[0], copied, nothing) == f"{NAMES[0]}.2"
    assert len(versions.names()) == 2


def test_rolling_back_goes_one_by_one_to_the_starter(versions: Versions) -> None:
    add(versions, *NAMES[:3])

    assert versions.roll_back() == (NAMES[2], NAMES[1])
    assert versions.roll_back() == (NAMES[1], NAMES[0])
    assert versions.roll_back() == (NAMES[0], None)
    with pytest.raises(VersionRefused, match="nothing before it"):
        versions.roll_back()
    assert versions.roll_back(NAMES[2]) == (None, NAMES[2])
    assert versions.roll_back("starter") == (NAMES[2], None)


def test_a_version_that_is_not_there_cannot_decide(versions: Versions) -> None:
    add(versions, NAMES[0])

    with pytest.raises(VersionRefused, match=f"no version ../x in .*; there are: {NAMES[0]}"):
        versions.roll_back("../x")
    assert versions.current() == NAMES[0]


def test_the_last_five_are_kept_and_the_one_in_force(versions: Versions) -> None:
    add(versions, *NAMES)
    versions.put_in_force(NAMES[0])

    assert versions.drop_oldest() == NAMES[1:3]
    assert versions.names() == [NAMES[0], *NAMES[3:]]


def test_only_one_process_fits_at_a_time(versions: Versions) -> None:
    with versions.alone(), pytest.raises(VersionRefused, match="Another process"), Versions(versions.folder).alone():
        pass
    with versions.alone():
        pass


def test_a_folder_that_is_a_surrogate_holds_no_versions(versions: Versions) -> None:
    copied(versions.folder)

    with pytest.raises(VersionRefused, match="itself a fitted surrogate"), versions.alone():
        pass


# -- what a server makes of the folder


@pytest.fixture
def policy(versions: Versions) -> SurrogatePolicy:
    return SurrogatePolicy(path=str(versions.folder))


def test_a_server_follows_what_is_put_in_force(versions: Versions, policy: SurrogatePolicy) -> None:
    surrogates = Surrogates()
    surrogates.prepare(policy)
    assert surrogates.refresh(policy) is None

    add(versions, NAMES[0])
    change = surrogates.refresh(policy)

    assert change is not None
    assert change.is_other
    assert (change.version or "").startswith(f"{NAMES[0]}@")
    assert surrogates.refresh(policy) is None
    versions.roll_back()
    back = surrogates.refresh(policy)
    assert back is not None
    assert (back.version or "").startswith("starter@")


def tampered(directory: Path) -> None:
    (directory / "weights.npz").write_bytes((directory / "weights.npz").read_bytes()[:-1] + b"!")


def truncated(directory: Path) -> None:
    content = (directory / "vocabulary.json").read_bytes()
    (directory / "vocabulary.json").write_bytes(content[: len(content) // 2])


def foreign(directory: Path) -> None:
    (directory / "manifest.json").write_text('{"format": "somebody-elses/3"}')


def pickled(directory: Path) -> None:
    (directory / "manifest.json").write_bytes(b"\x80\x04\x95")


def gone(directory: Path) -> None:
    (directory / "weights.npz").unlink()


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        pytest.param(tampered, "weights.npz: the SHA-256 is not the manifest's", id="tampered"),
        pytest.param(truncated, "vocabulary.json: the SHA-256 is not the manifest's", id="truncated"),
        pytest.param(foreign, "the format is not hermes-surrogate/1", id="foreign"),
        pytest.param(pickled, "manifest.json: not JSON", id="pickled"),
        pytest.param(gone, "weights.npz: cannot be read", id="incomplete"),
    ],
)
def test_an_unsound_version_is_refused_and_the_old_one_goes_on(
    versions: Versions, policy: SurrogatePolicy, spoil: object, says: str
) -> None:
    add(versions, NAMES[0])
    surrogates = Surrogates()
    assert surrogates.prepare(policy) is None
    before = surrogates.of(policy)
    versions.add(NAMES[1], copied, nothing)
    spoil(versions.folder / NAMES[1])  # type: ignore[operator]

    (versions.folder / "current").write_text(NAMES[1])
    change = surrogates.refresh(policy)

    assert change is not None
    assert not change.is_other
    assert says in (change.warning or "")
    assert (change.warning or "").endswith("the one that was loaded before goes on")
    assert surrogates.of(policy) is before
    assert surrogates.refresh(policy) is None, "the warning is given once"


def test_a_server_that_starts_with_an_unsound_version_uses_the_starter(
    versions: Versions, policy: SurrogatePolicy
) -> None:
    add(versions, NAMES[0])
    tampered(versions.folder / NAMES[0])
    surrogates = Surrogates()

    assert "the surrogate that ships with Hermes decides" in (surrogates.prepare(policy) or "")
    found = surrogates.of(policy)
    assert found is not None
    assert found.version.startswith("starter@")
