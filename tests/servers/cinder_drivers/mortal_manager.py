# SPDX-License-Identifier: Apache-2.0
"""Tonnage's manager of Cinder's scheduler, which kills or freezes its process where a test wants it.

It runs with Cinder's Python. The file ``kill_at`` in ``state_path`` has words such as ``before migrate`` or ``after
mark``: the first scheduler that comes there renames the file to ``killed``, and dies with all of its processes. With
``freeze_at`` it writes its process group to ``frozen``, and stops until it gets SIGCONT.
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

#: Seconds after which an extension that may not have been sent is sent again.
growth_steps._DOUBT = 15.0

_STEPS = {
    CinderLedger: ("book_growth", "record", "end"),
    GrowthCommands: ("mark", "migrate", "extend", "swap", "remove", "give_back", "roll_back", "tell"),
}


def _die(words: str) -> None:
    if _is_chosen("kill_at", words, "killed"):
        os.killpg(0, signal.SIGKILL)
    if _is_chosen("freeze_at", words, "frozen"):
        os.killpg(0, signal.SIGSTOP)


def _is_chosen(name: str, words: str, done: str) -> bool:
    file = pathlib.Path(cfg.CONF.state_path) / name  # noqa: TID251  (Cinder's way)
    try:
        if file.read_text() != words:
            return False
        file.rename(file.with_name(f"{done}.new"))
    except FileNotFoundError:
        return False
    file.with_name(f"{done}.new").write_text(str(os.getpgid(0)))
    file.with_name(f"{done}.new").rename(file.with_name(done))
    return True


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
