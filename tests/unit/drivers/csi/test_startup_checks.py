# SPDX-License-Identifier: Apache-2.0
"""The checks at the start of a backend, with a plugin on a real socket."""

import threading
from pathlib import Path
from typing import Any

import pytest

from tests.servers.csi_plugin import CsiPlugin
from tests.unit.drivers.csi.backends import Make
from tonnage.capacity import errors
from tonnage.drivers.csi import driver as csi_driver
from tonnage.drivers.csi.connection import Deadline


def test_a_plugin_that_is_away_or_not_ready_is_refused(
    plugin: CsiPlugin, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_deadline_at_first_probe(plugin, monkeypatch)
    plugin.settings.ready = False
    with pytest.raises(errors.ConfigurationError, match=f"csi_endpoint = {plugin.endpoint}: .* not ready yet"):
        make("csi_look_timeout = 2")
    plugin.settings.ready = True
    make()
    plugin.stop()
    # The last attempt may be too short to notice that the plugin is away.
    message = f"{plugin.endpoint} answers Identity/Probe with (UNAVAILABLE|DEADLINE_EXCEEDED)"
    with pytest.raises(errors.ConfigurationError, match=message):
        make("csi_look_timeout = 0.3")


def start_deadline_at_first_probe(plugin: CsiPlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start the deadlines of queries at the first probe of the plugin, so that a slow start does not count."""

    class DeadlineFromFirstProbe(Deadline):
        def remaining(self) -> float:
            return super().remaining() if plugin.asked("Probe") else 60.0

    monkeypatch.setattr(csi_driver, "Deadline", DeadlineFromFirstProbe)


def test_a_plugin_that_hangs_after_a_first_not_ready_is_refused(
    plugin: CsiPlugin, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_deadline_at_first_probe(plugin, monkeypatch)

    class ClosedAfterFirst(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            return len(plugin.asked("Probe")) < 2 or super().wait(timeout)

    plugin.settings.ready = False
    plugin.settings.gates["Probe"] = ClosedAfterFirst()
    with pytest.raises(errors.ConfigurationError, match="not ready yet"):
        make("csi_look_timeout = 2")


@pytest.mark.parametrize(
    ("settings", "text", "message"),
    [
        ({"capacity": False}, "", "folders.csi.test does not tell its capacity"),
        ({"controller": False}, "", "folders.csi.test does not tell its capacity"),
        (
            {},
            "csi_topology = labels\ncsi_topology_prefix = a\ncsi_nodes_file = b",
            "VOLUME_ACCESSIBILITY_CONSTRAINTS",
        ),
    ],
)
def test_a_plugin_without_a_needed_capability_is_refused(
    plugin: CsiPlugin, make: Make, settings: dict[str, Any], text: str, message: str
) -> None:
    for name, value in settings.items():
        setattr(plugin.settings, name, value)
    with pytest.raises(errors.ConfigurationError, match=message):
        make(text)


def test_a_state_file_belongs_to_one_backend(plugin: CsiPlugin, make: Make, tmp_path: Path) -> None:
    make()
    with pytest.raises(errors.ConfigurationError, match="belongs to backend host@csi, and other@csi needs one"):
        make(backend="other@csi")
    with pytest.raises(errors.ConfigurationError, match=r"csi_state_file = .*/no/folder: .* name a file that can be"):
        make(state="no/folder")
    (tmp_path / "broken.db").write_text("no database at all, but long enough to look like a file of somebody else")
    with pytest.raises(errors.ConfigurationError, match=r"broken.db: file is not a database"):
        make(state="broken.db")


def test_a_state_file_that_is_gone_is_not_made_again_while_its_mark_is_there(make: Make, tmp_path: Path) -> None:
    make(state="array.db").mark_ledger("ledger-1")
    (tmp_path / "array.db").unlink()
    with pytest.raises(errors.ConfigurationError, match=r"array.db: the file with the volumes is gone; restore it, or"):
        make(state="array.db")
    assert not (tmp_path / "array.db").exists()
    (tmp_path / "array.db.ledger").unlink()
    assert set(make(state="array.db").ledger_marks().values()) == {None}
