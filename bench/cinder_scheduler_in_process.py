# SPDX-License-Identifier: Apache-2.0
"""Decisions of Cinder's scheduler, or of Tonnage's in its place, within one process that has both.

The databases are real: services and volumes in Cinder's, and pools and claims in the ledger. Only the message bus is
left out: commands are dropped. A line of JSON has the processor times of this process in milliseconds.
"""

import argparse
import gc
import json
import os
import statistics
import time
import uuid
import warnings
from collections.abc import Callable
from typing import Any

warnings.simplefilter("ignore")
os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"

import workload  # noqa: E402
from cinder import objects  # noqa: E402

objects.register_all()

import oslo_messaging as messaging  # noqa: E402
from cinder import context, rpc  # noqa: E402
from cinder.common import config  # noqa: E402, F401
from cinder.db import migration  # noqa: E402
from cinder.scheduler import filter_scheduler  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

from tonnage.extensions.cinder.extension import EXTENSION  # noqa: E402
from tonnage.extensions.cinder.pools.native_plugins import NativePlugins  # noqa: E402
from tonnage.extensions.cinder.scheduler import (  # noqa: E402
    backend_states,
    cinder_driver,
    cinder_manager,
    ledger_options,
    reported_figures,
)
from tonnage.extensions.cinder.scheduler.cinder_ledger import connect  # noqa: E402
from tonnage.ledger.db import database, schema  # noqa: E402

CONF = cinder_manager.CONF

#: Decisions before the measurement.
_WARM_UP = 20


class Scheduler:
    """A scheduler that has received a report of each pool."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        CONF([], project="cinder", default_config_files=[])
        messaging.get_rpc_transport(CONF, "fake://")
        CONF.set_override("transport_url", "fake://")
        CONF.set_override("connection", arguments.database, group="database")
        CONF.set_override("service_down_time", 86400)
        rpc.init(CONF)
        migration.db_sync()
        self._context = context.get_admin_context()
        self._reports = workload.reports(arguments.pools)
        self._sizes = workload.sizes()
        self._add_services()
        if arguments.scheduler == "stock":
            self._driver = filter_scheduler.FilterScheduler()
        else:
            self._driver = cinder_driver.LedgerScheduler()
        self._receive_reports()
        if arguments.scheduler != "stock":
            names = (ledger_options.NATIVE_FILTERS, ledger_options.NATIVE_WEIGHERS)
            self._open_ledger(arguments.ledger, NativePlugins(*(names if arguments.scheduler == "native" else ())))
        self._driver.volume_rpcapi.create_volume = lambda *args, **kwargs: None

    def _add_services(self) -> None:
        for host in self._reports:
            service = objects.Service(
                self._context,
                host=host,
                binary="cinder-volume",
                topic="cinder-volume",
                availability_zone="nova",
                rpc_current_version="3.20",
                object_current_version="1.39",
            )
            service.create()
            service.report_count = 1
            service.save()

    def _receive_reports(self) -> None:
        self._capabilities = {
            host: {
                "volume_backend_name": host,
                "pools": [{**pool, "allocated_capacity_gb": 0, "filter_function": None} for pool in pools],
                "storage_protocol": "iSCSI",
            }
            for host, pools in self._reports.items()
        }
        for host, report in self._capabilities.items():
            self._driver.host_manager.update_service_capabilities("volume", host, report, None, timeutils.utcnow())

    def _open_ledger(self, url: str, native: NativePlugins) -> None:
        schema.sync(database.create_engine(url), {"cinder": EXTENSION})
        CONF.set_override("connection", url, group="tonnage")
        self.ledger = connect(CONF.tonnage)
        for host, report in self._capabilities.items():
            self.ledger.observe(host)
            probe = self.ledger.next_probe(host, 0.0)
            usable, _ = reported_figures.of_states(backend_states.pool_states(host, None, report), bounded=True)
            assert probe is not None
            assert self.ledger.report(probe, usable)
        self._driver.connect(self.ledger, native, stock_if_away=False, timeout=0.0)
        self.ledger.pools.refresh_changed()

    def decide(self) -> dict[str, float]:
        """Decide the next request; return the processor time, and its parts."""
        size = next(self._sizes)
        properties = {"size": size, "status": "creating", "availability_zone": None}
        volume = objects.Volume(self._context, user_id="user", project_id="project", **properties)
        volume.create()
        spec = objects.RequestSpec.from_primitives(
            {
                "volume_id": volume.id,
                "volume_properties": {**properties, "id": volume.id},
                "volume_type": {"id": str(uuid.UUID(int=1)), "name": "gold", "extra_specs": workload.EXTRA_SPECS},
            }
        )
        spec.volume = volume
        choose = self._driver._get_weighted_candidates
        chosen = []

        def timed(*args: Any) -> Any:
            began = time.thread_time()
            try:
                return choose(*args)
            finally:
                chosen.append(time.thread_time() - began)

        self._driver._get_weighted_candidates = timed
        began = time.thread_time()
        self._driver.schedule_create_volume(self._context, spec, {})
        whole = time.thread_time() - began
        self._driver._get_weighted_candidates = choose
        return {"decision": whole * 1000, "choice": sum(chosen) * 1000, "claim": (whole - sum(chosen)) * 1000}


def median(once: Callable[[], float], times: int) -> float:
    """Return the median of some runs."""
    return round(statistics.median(once() for _ in range(times)), 3)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scheduler", choices=["stock", "default", "native"])
    parser.add_argument("--database", required=True, help="URL of an empty database for Cinder")
    parser.add_argument("--ledger", required=True, help="URL of an empty database for the ledger")
    parser.add_argument("--pools", type=int, required=True)
    parser.add_argument("--decisions", type=int, required=True)
    arguments = parser.parse_args()
    scheduler = Scheduler(arguments)
    for _ in range(_WARM_UP):
        scheduler.decide()
    gc.collect()
    found = [scheduler.decide() for _ in range(arguments.decisions)]
    figures = {name: round(statistics.median(each[name] for each in found), 3) for name in found[0]}
    if arguments.scheduler != "stock":

        def refresh() -> float:
            scheduler.decide()
            began = time.thread_time()
            scheduler.ledger.pools.refresh_changed()
            return (time.thread_time() - began) * 1000

        figures["refresh"] = median(refresh, 5)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
