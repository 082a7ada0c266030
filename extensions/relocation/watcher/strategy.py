# SPDX-License-Identifier: Apache-2.0
"""A strategy for OpenStack Watcher, which imports it by the entry point ``watcher_strategies``: our plans of moves.

Nothing else imports this module. It needs no other library of Tonnage, so Watcher's environment may have the package
alone: the plan is made by the command ``tonnage cinder plan``, of this environment or another one.
"""

import json
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from oslo_config import cfg
from oslo_log import log
from watcher.common import cinder_helper, exception
from watcher.decision_engine.strategy.strategies import base

LOG = log.getLogger(__name__)

#: Exit statuses of the command: the plan reaches its goal, or a part of it.
_PLANNED = (0, 3)


class TonnageMoves(base.UnclassifiedStrategy):  # type: ignore[misc]
    """Moves volumes by a plan of Tonnage.

    The parameter ``plan`` of an audit has the goal as ``tonnage cinder plan`` takes it: ``empty controller@old``, or
    ``balance --points 10``. Moves that Watcher cannot carry out are named in its log, each with the reason, and are no
    actions.
    """

    def __init__(self, config: Any, osc: Any = None) -> None:
        super().__init__(config, osc)
        self._cinder: Any = None

    @classmethod
    def get_name(cls) -> str:
        """Return the name of the strategy."""
        return "tonnage_moves"

    @classmethod
    def get_display_name(cls) -> str:
        """Return the name that users see."""
        return "Plan of moves of volumes by Tonnage"

    @classmethod
    def get_translatable_display_name(cls) -> str:
        """Return the same name, for translations."""
        return cls.get_display_name()

    @classmethod
    def get_schema(cls) -> dict[str, Any]:
        """Return the schema of the parameters of an audit."""
        plan = {
            "description": "goal and options as of 'tonnage cinder plan', such as: empty controller@old",
            "type": "string",
            "default": "balance",
        }
        return {"properties": {"plan": plan}}

    @classmethod
    def get_config_opts(cls) -> list[cfg.Opt]:
        """Return the options, which are in the section ``watcher_strategies.tonnage_moves``."""
        return [
            cfg.StrOpt("command", default="tonnage", help="Command of Tonnage, with options before its subcommand."),
            cfg.StrOpt("cloud", help="Name of the cloud in clouds.yaml. By default the variables OS_* name it."),
            cfg.IntOpt("timeout", default=600, min=1, help="Seconds that the command may take."),
        ]

    def pre_execute(self) -> None:
        """Do nothing: the plan needs no model of Watcher."""

    def post_execute(self) -> None:
        """Do nothing."""

    def do_execute(self, audit: Any = None) -> None:
        """Add an action for each move of the plan that Watcher can carry out."""
        for row in self._plan(self.input_parameters.plan):
            name = f"volume {row['volume']} ({row['size_bytes'] >> 30} GiB) in {row['source']}"
            if row["target"] is None:
                LOG.info("%s stays: %s", name, row["reason"])
            elif (obstacle := self._obstacle(row)) is not None:
                LOG.warning("%s is not moved to %s: %s", name, row["target"], obstacle)
            else:
                parameters = {"migration_type": "migrate", "destination_node": row["target"]}
                self.solution.add_action("volume_migrate", resource_id=row["volume"], input_parameters=parameters)

    def _plan(self, words: str) -> Sequence[Mapping[str, Any]]:
        """Return the rows of a plan. Raises an error of Watcher with the reason if there is none."""
        command = [*shlex.split(self.config.command), "cinder", "plan", *shlex.split(words), "-f", "json"]
        # The options of Watcher's own process are no options of the command.
        environment = {**os.environ, **({"OS_CLOUD": self.config.cloud} if self.config.cloud else {})}
        try:
            done = subprocess.run(  # noqa: S603  -- the operator's own command
                command, env=environment, capture_output=True, text=True, timeout=self.config.timeout, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise exception.WatcherException(f"{shlex.join(command)}: {error}") from error
        if done.returncode not in _PLANNED:
            raise exception.WatcherException(f"{shlex.join(command)}: status {done.returncode}: {done.stderr.strip()}")
        rows: Sequence[Mapping[str, Any]] = json.loads(done.stdout)
        return rows

    def _obstacle(self, row: Mapping[str, Any]) -> str | None:
        """Return why Watcher cannot carry out a move; None if it can."""
        if row["after"]:
            return "it needs the room of other moves, and actions of Watcher do not wait for a report; audit again then"
        if self._cinder is None:
            self._cinder = cinder_helper.CinderHelper()
        volume = self._cinder.get_volume(row["volume"])
        pool = self._cinder.get_storage_pool_by_name(row["target"])
        if volume.volume_type not in self._cinder.get_volume_types_for_pool(pool):
            kind = volume.volume_type
            return f"Watcher moves no volume of the type {kind} to this pool; 'tonnage cinder plan apply' does"
        return None
