# SPDX-License-Identifier: Apache-2.0
"""Run our strategy in Watcher's own environment, and carry its actions out: ``watcher_run.py CONFIG PLAN``.

The strategy and the actions are loaded by Watcher's loaders, as its decision engine and its applier do. The actions are
printed as a line of JSON, each with whether it has succeeded.
"""

import json
import logging
import sys
import time

from watcher import conf as watcher_conf
from watcher.applier.actions import volume_migration
from watcher.common import exception, utils
from watcher.decision_engine.loading import default


def main() -> int:
    """Plan, carry out and print."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    watcher_conf.CONF(["--config-file", sys.argv[1]], project="watcher", default_config_dirs=[])
    strategy = default.DefaultStrategyLoader().load("tonnage_moves")
    strategy.input_parameters = utils.Struct({"plan": sys.argv[2]})
    try:
        actions = strategy.execute().actions
    except exception.WatcherException as error:
        print(json.dumps({"error": str(error)}))
        return 1
    # The moves of the stand-in for Cinder end at once.
    time.sleep = lambda seconds: None
    for action in actions:
        assert action["action_type"] == "volume_migrate"
        move = volume_migration.VolumeMigrate(None)
        move.input_parameters = action["input_parameters"]
        move.validate_parameters()
        move.pre_condition()
        action["succeeded"] = move.execute()
    print(json.dumps({"actions": actions}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
