# SPDX-License-Identifier: Apache-2.0
"""The parts of a scheduler that record decisions."""

import pathlib
from types import SimpleNamespace
from typing import Any

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.replay import options, scheduler_parts
from tonnage.extensions.replay.decision_log import DecisionLog
from tonnage.scheduler.extension_parts import SchedulerParts

CONTEXT: Any = SimpleNamespace(settings=SimpleNamespace(host="here"), hosts=None, clock=lambda: 0.0)


def configuration(log: pathlib.Path | None) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf.register_opts(options.OPTIONS)
    conf([])
    conf.set_override("decision_log", None if log is None else str(log))
    return conf


def test_without_a_file_decisions_are_not_recorded() -> None:
    assert scheduler_parts.build(configuration(None), CONTEXT) == SchedulerParts()


def test_a_file_is_held_until_the_scheduler_ends(tmp_path: pathlib.Path) -> None:
    conf = configuration(tmp_path / "log")
    parts = scheduler_parts.build(conf, CONTEXT)
    [observer] = parts.decision_observers
    assert isinstance(observer, DecisionLog)
    with pytest.raises(errors.ConfigurationError, match="another process writes to"):
        scheduler_parts.build(conf, CONTEXT)
    for close in parts.closers:
        close()
    for close in scheduler_parts.build(conf, CONTEXT).closers:
        close()
