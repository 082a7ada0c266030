# SPDX-License-Identifier: Apache-2.0
import pathlib

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.cli import setup
from tonnage.rpc import options, versions


@pytest.mark.parametrize(
    ("told", "least"),
    [
        ([], versions.CURRENT),
        (["1.1", "1.0", "1.1"], "1.0"),
        (["1.1"], "1.1"),
        (["1.12", "2.0"], versions.CURRENT),  # of a later release, which takes what this one sends
        (["1.1", "latest"], "1.0"),
        (["1.1", ""], "1.0"),
        (["1.1", "1.0.3"], "1.0"),
    ],
)
def test_the_least_of_what_was_told_and_never_more_than_this_code_speaks(told: list[str], least: str) -> None:
    assert versions.least(told) == least


def test_versions_are_compared_as_numbers() -> None:
    assert versions.reaches("1.10", "1.9")
    assert not versions.reaches("1.9", "1.10")


def conf(text: str = "", pinned: str | None = None) -> cfg.ConfigOpts:
    made = cfg.ConfigOpts()
    options.register(made)
    made([], project="tonnage", default_config_files=[])
    if pinned is not None:
        made.set_override("scheduler", pinned, versions.GROUP)
    return made


def test_what_is_pinned_wins_and_nobody_is_asked() -> None:
    def ask() -> str:
        raise AssertionError

    assert versions.Cap(conf(pinned="1.0"), "scheduler").of(ask) == "1.0"
    assert versions.Cap(conf(pinned="1.1"), "scheduler").of(ask) == "1.1"


def test_unless_pinned_it_is_what_they_told() -> None:
    assert versions.Cap(conf(), "scheduler").of(lambda: "1.0") == "1.0"
    assert versions.Cap(conf(pinned="auto"), "scheduler").of(lambda: "1.7") == versions.CURRENT


def test_a_pin_that_nobody_knows_is_named_with_those_that_are(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "tonnage.conf"
    file.write_text("[upgrade_levels]\nagent = 3.0\n")
    with pytest.raises(errors.ConfigurationError) as caught:
        setup.configure(cfg.ConfigOpts(), ["--config-file", str(file)], "tonnage-test", [options.register])
    said = f"[upgrade_levels] agent = 3.0 in {file}: it takes auto, 1.0 or 1.1"
    assert caught.value.message == said
    unchecked = cfg.ConfigOpts()
    options.register(unchecked)
    unchecked(["--config-file", str(file)], project="tonnage")
    with pytest.raises(errors.ConfigurationError) as caught:
        versions.Cap(unchecked, "agent")
    assert caught.value.message == said


def test_it_is_read_again_after_some_seconds_and_goes_on_where_it_cannot_be(caplog: pytest.LogCaptureFixture) -> None:
    now, value, reads = [0.0], ["1.1"], []

    def read() -> str:
        reads.append(now[0])
        if value[0] == "away":
            raise errors.Unavailable("the database does not answer")
        return value[0]

    version = versions.Remembered(read, seconds=5.0, clock=lambda: now[0])
    assert (version(), version()) == ("1.1", "1.1")
    value[0], now[0] = "away", 5.0
    assert (version(), version()) == ("1.1", "1.1")
    assert "1.1 goes on: the database does not answer" in caplog.text
    now[0] = 10.0
    assert version() == "1.1"
    assert [record.levelname for record in caplog.records if "goes on" in record.message] == ["WARNING"], "once"
    value[0], now[0] = "1.0", 15.0
    assert (version(), version()) == ("1.0", "1.0")
    assert reads == [0.0, 5.0, 10.0, 15.0]


def test_before_it_was_read_it_is_what_everybody_takes() -> None:
    def read() -> str:
        raise errors.Unavailable("away")

    assert versions.Remembered(read)() == "1.0"
