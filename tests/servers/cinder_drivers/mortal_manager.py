# SPDX-License-Identifier: Apache-2.0
"""Tonnage's manager of Cinder's scheduler, which kills its process where a test wants it. Runs with Cinder's Python.

The file ``kill_at`` in ``state_path`` has words such as ``before migrate`` or ``after mark``: the first scheduler that
comes there removes the file, and dies with all of its processes.
"""

import functools
import os
import pathlib
import signal
from collections.abc import Callable
from typing import Any

from oslo_config import cfg

from tonnage.extensions.cinder.growth import growth_steps
from tonnage.extensions.cinder.growth.growth_commands import GrowthCommands
from tonnage.extensions.cinder.ledger import growths
from tonnage.extensions.cinder.scheduler import cinder_manager
from tonnage.extensions.cinder.scheduler.cinder_ledger import CinderLedger

#: Seconds without a sign of life after which another scheduler takes a growth over.
growths.LEASE = 4.0
growth_steps._GRACE = 3.0

_STEPS = {
    CinderLedger: ("book_growth", "record", "end"),
    GrowthCommands: ("mark", "migrate", "extend", "swap", "remove", "give_back", "roll_back", "tell"),
}


def _die(words: str) -> None:
    file = pathlib.Path(cfg.CONF.state_path) / "kill_at"  # noqa: TID251  (Cinder's way)
    try:
        if file.read_text() != words:
            return
        file.rename(file.with_name("killed"))
    except FileNotFoundError:
        return
    os.killpg(0, signal.SIGKILL)


def _mortal(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(self: Any, *arguments: Any, **options: Any) -> Any:
        words = f"{name} {arguments[1]}" if name == "record" else name
        _die(f"before {words}")
        result = function(self, *arguments, **options)
        _die(f"after {words}")
        return result

    return wrapper


class MortalManager(cinder_manager.LedgerSchedulerManager):
    """The manager, with these steps."""

    def init_host(self, *arguments: Any, **options: Any) -> None:
        for owner, names in _STEPS.items():
            for name in names:
                setattr(owner, name, _mortal(getattr(owner, name), name))
        super().init_host(*arguments, **options)
