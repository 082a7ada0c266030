# SPDX-License-Identifier: Apache-2.0
"""The strategy for Watcher, without Watcher: ``tests/cinder/test_watcher.py`` runs it in Watcher's own environment."""

import importlib
import json
import logging
import pathlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

A, B = "h@a#p", "h@b#p"


class _WatcherError(Exception):
    pass


class _Strategy:
    def __init__(self, config: Any, osc: Any = None) -> None:
        self.config, self.osc = config, osc
        self.input_parameters = SimpleNamespace(plan="empty h@a")
        self.actions: list[tuple[str, str, dict[str, str]]] = []
        self.solution = SimpleNamespace(add_action=self._add)

    def _add(self, action_type: str, resource_id: str, input_parameters: dict[str, str]) -> None:
        self.actions.append((action_type, resource_id, input_parameters))


class _Cinder:
    def get_volume(self, volume_id: str) -> SimpleNamespace:
        return SimpleNamespace(volume_type="gold" if volume_id == "other" else "plain")

    def get_storage_pool_by_name(self, name: str) -> str:
        return name

    def get_volume_types_for_pool(self, pool: str) -> list[str]:
        return ["plain"]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the strategy, with the names of Watcher that it uses."""
    names = {
        "watcher.common": {
            "cinder_helper": SimpleNamespace(CinderHelper=_Cinder),
            "exception": SimpleNamespace(WatcherException=_WatcherError),
        },
        "watcher.decision_engine.strategy.strategies": {"base": SimpleNamespace(UnclassifiedStrategy=_Strategy)},
    }
    for name, members in names.items():
        words = name.split(".")
        for count in range(1, len(words) + 1):
            monkeypatch.setitem(sys.modules, ".".join(words[:count]), ModuleType(".".join(words[:count])))
        vars(sys.modules[name]).update(members)
    name = "tonnage.extensions.relocation.watcher.strategy"
    monkeypatch.delitem(sys.modules, name, raising=False)
    loaded = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return loaded


def made(module: ModuleType, tmp_path: pathlib.Path, rows: list[dict[str, Any]], status: int = 0) -> _Strategy:
    """Return a strategy whose command prints a plan, and on standard error its arguments and the cloud."""
    script = tmp_path / "tonnage"
    script.write_text(
        f"#!/bin/sh\necho \"$@ of $OS_CLOUD\" >&2\ncat <<'END'\n{json.dumps(rows)}\nEND\nexit {status}\n",
        encoding="utf-8",
    )
    script.chmod(0o755)
    strategy: _Strategy = module.TonnageMoves(SimpleNamespace(command=str(script), cloud="mycloud", timeout=60))
    return strategy


def row(volume: str, target: str | None, after: list[int] | None = None) -> dict[str, Any]:
    """Return a row of a plan."""
    return {
        "volume": volume,
        "size_bytes": 10 * 2**30,
        "source": A,
        "target": target,
        "after": after or [],
        "reason": "it is in use",
    }


def test_moves_become_actions_and_the_others_are_named(
    module: ModuleType, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rows = [row("first", B), row("later", B, [1]), row("other", B), row("busy", None)]
    strategy = made(module, tmp_path, rows, status=3)
    strategy.do_execute()  # type: ignore[attr-defined]
    expected = {"migration_type": "migrate", "destination_node": B}
    assert strategy.actions == [("volume_migrate", "first", expected)]
    later, other, busy = (record.getMessage() for record in caplog.records[-3:])
    assert later.startswith(f"volume later (10 GiB) in {A} is not moved to {B}: it needs the room of other moves")
    assert other.startswith(
        f"volume other (10 GiB) in {A} is not moved to {B}: Watcher moves no volume of the type gold"
    )
    assert busy == f"volume busy (10 GiB) in {A} stays: it is in use"


def test_a_command_that_fails_is_an_error_with_its_arguments(module: ModuleType, tmp_path: pathlib.Path) -> None:
    strategy = made(module, tmp_path, [], status=1)
    with pytest.raises(_WatcherError, match="status 1: cinder plan empty h@a -f json of mycloud"):
        strategy.do_execute()  # type: ignore[attr-defined]
    strategy.config.command = str(tmp_path / "nothing")
    with pytest.raises(_WatcherError, match="No such file"):
        strategy.do_execute()  # type: ignore[attr-defined]


def test_the_options_and_the_parameter_have_defaults(module: ModuleType) -> None:
    assert [option.default for option in module.TonnageMoves.get_config_opts()] == ["tonnage", None, 600]
    assert module.TonnageMoves.get_schema()["properties"]["plan"]["default"] == "balance"
    assert module.TonnageMoves.get_name() == "tonnage_moves"
