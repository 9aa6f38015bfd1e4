"""The kill switch: a pin or a file, looked up beside the requests."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from hermes.admission.switch import KillSwitch
from hermes.directory import ENABLED_KEY, Directory, DirectoryBox
from hermes.errors import GatewayDisabled


class Disk:
    """Whether the file is there, and how often that was asked."""

    def __init__(self) -> None:
        self.is_there = False
        self.looks = 0

    def __call__(self, path: Path) -> bool:
        self.looks += 1
        return self.is_there


def with_pin(value: str | None) -> Directory:
    return Directory(pins={} if value is None else {ENABLED_KEY: value})


@pytest.mark.parametrize("by_file", [False, True], ids=["no file", "a file"])
@pytest.mark.parametrize(
    ("pin", "by_pin"),
    [(None, False), ("true", False), ("1", False), ("false", True), (" OFF ", True), ("0", True), ("no", True)],
)
def test_either_of_them_stops_completions(pin: str | None, by_pin: bool, by_file: bool) -> None:
    disk = Disk()
    disk.is_there = by_file
    switch = KillSwitch(DirectoryBox(with_pin(pin)), Path("off"), disk)

    assert switch.is_stopped() == (by_pin or by_file)
    if by_pin or by_file:
        with pytest.raises(GatewayDisabled) as refused:
            switch.check()
        assert (refused.value.status, refused.value.code, refused.value.should_retry) == (
            503,
            "gateway_disabled",
            False,
        )
    else:
        switch.check()


def test_the_file_is_not_looked_for_on_the_way_of_a_request() -> None:
    disk = Disk()
    switch = KillSwitch(DirectoryBox(), Path("off"), disk)
    before = disk.looks

    for _ in range(100):
        switch.check()
    disk.is_there = True
    switch.check()
    assert disk.looks == before

    switch.look()
    assert switch.is_stopped()


def test_a_pin_counts_as_soon_as_the_directory_is_swapped() -> None:
    box = DirectoryBox()
    switch = KillSwitch(box, Path("off"), Disk())

    box.swap(with_pin("false"))
    assert switch.is_stopped()
    box.swap(with_pin("true"))
    assert not switch.is_stopped()


def test_each_turn_is_told_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    box, disk = DirectoryBox(), Disk()

    with caplog.at_level(logging.INFO, logger="hermes-router"):
        switch = KillSwitch(box, Path("/srv/gateway.off"), disk)
        disk.is_there = True
        for _ in range(3):
            switch.look()
        box.swap(with_pin("false"))
        disk.is_there = False
        switch.look()
        box.swap(with_pin(None))
        box.swap(with_pin("false"))

    assert caplog.messages == [
        "The kill switch is thrown, by the file /srv/gateway.off: completions are refused",
        "The kill switch is off again: completions are served",
        "The kill switch is thrown, by the pin ai.gateway.enabled: completions are refused",
    ]


def test_the_file_is_a_real_one_wherever_the_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    switch = KillSwitch(DirectoryBox(), Path("data/gateway.off"))
    os.chdir("/")

    (tmp_path / "data" / "gateway.off").touch()
    switch.look()

    assert switch.is_stopped()
