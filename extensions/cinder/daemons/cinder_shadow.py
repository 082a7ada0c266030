# SPDX-License-Identifier: Apache-2.0
"""``tonnage-cinder-shadow``: watches Cinder's schedulers, and reports decisions that Tonnage would not make."""

import contextlib
import sys

from cotyledon import types
from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.api.monitoring import server as monitoring
from tonnage.cli import setup, unknown_options
from tonnage.cli.daemons import workers
from tonnage.extensions.cinder.watch import shadow_composition, shadow_options
from tonnage.extensions.cinder.watch.shadow import Shadow
from tonnage.ledger.db import database, schema
from tonnage.ledger.db import options as database_options
from tonnage.metrics import options as metrics_options
from tonnage.rpc import options as rpc_options
from tonnage.scheduler.configuration import settings as scheduler_settings

PROG = "tonnage-cinder-shadow"


class ShadowWorker(workers.Worker):
    """The worker process of the shadow."""

    prog = PROG

    def __init__(self, worker_id: types.WorkerId, conf: cfg.ConfigOpts) -> None:
        super().__init__(worker_id)
        self._conf = conf
        self._shadow: Shadow | None = None

    def serve(self) -> None:
        with contextlib.ExitStack() as cleanup:
            ledger = database.connect(self._conf)
            cleanup.callback(ledger.close)
            shadow = self._shadow = shadow_composition.build(self._conf, ledger, cleanup)
            metrics = monitoring.build(self._conf, ledger, "cinder_shadow_listen_port")
            if metrics is not None:
                metrics.listen()
                cleanup.callback(metrics.stop)
                metrics.start()
            self.started = True
            shadow.run()

    def end(self) -> None:
        if self._shadow is not None:
            self._shadow.end()


_REGISTER = [
    rpc_options.register,
    scheduler_settings.register,
    database_options.register,
    metrics_options.register,
    shadow_options.register,
]

#: The calculation and the filters of Cinder 29.
_DEFAULTS = {
    "over_provisioning_calculation": "standard",
    "scheduler_default_filters": ["AvailabilityZoneFilter", "CapacityFilter", "CapabilitiesFilter"],
}


@setup.clean_exit(PROG)
def main() -> None:
    """Watch until SIGTERM or Ctrl-C. ``tonnage cinder`` shows the record."""
    conf, argv = cfg.CONF, sys.argv[1:]
    setup.configure(conf, argv, PROG, _REGISTER, _DEFAULTS)
    unknown_options.warn(conf)
    with contextlib.ExitStack() as cleanup:
        # Errors in the configuration are reported before a worker starts.
        ledger = database.connect(conf)
        cleanup.callback(ledger.close)
        schema.require_current(ledger.engine, enabled_extensions.enabled(conf))
        shadow_composition.build(conf, ledger, cleanup)
    workers.run(conf, PROG, workers.WorkerPlan([workers.WorkerSpec(PROG, ShadowWorker, (conf,))]))
