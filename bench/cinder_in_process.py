# SPDX-License-Identifier: Apache-2.0
"""Benchmark of Cinder's scheduler within one process: decisions and reports.

It runs with the Python that Cinder is installed in. The filter scheduler, the host manager, filters and weigher are
Cinder's own, with their default options. There is no message bus and no database: the list of volume services, which
Cinder reads from its database for every decision, is prepared in memory. So Cinder has less work than in production.
"""

from __future__ import annotations  # Cinder's objects have their classes only later

import argparse
import copy
import json
import os
import types
import warnings

warnings.simplefilter("ignore")
os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"

import workload  # noqa: E402
from cinder import objects  # noqa: E402

objects.register_all()

import oslo_messaging as messaging  # noqa: E402
from cinder import (  # noqa: E402
    context,
    rpc,
)
from cinder.common import config  # noqa: E402, F401
from cinder.objects import base  # noqa: E402
from cinder.scheduler import filter_scheduler  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_utils import timeutils  # noqa: E402

CONF = cfg.CONF  # noqa: TID251  (Cinder knows no other)


class Cinder:
    """A scheduler that has received reports of ``pools`` pools."""

    def __init__(self, pools: int) -> None:
        CONF([], project="cinder", default_config_files=[])
        messaging.get_rpc_transport(CONF, "fake://")  # which makes the option known
        CONF.set_override("transport_url", "fake://")
        rpc.init(CONF)
        self._context = context.get_admin_context()
        self._serve(workload.reports(pools))
        self._scheduler = filter_scheduler.FilterScheduler()
        self._hosts = self._scheduler.host_manager
        self._sizes = workload.sizes()
        self.bytes_per_pool = (
            workload.allocated_bytes(lambda: (self.report(workload.reports(pools)), self.decide())) // pools
        )

    def _serve(self, backends: dict) -> None:
        now = timeutils.utcnow()
        services = [
            objects.Service(
                self._context,
                id=number,
                host=host,
                binary="cinder-volume",
                topic="cinder-volume",
                cluster_name=None,
                availability_zone="nova",
                disabled=False,
                created_at=now,
                updated_at=now,
            )
            for number, host in enumerate(backends)
        ]
        for service in services:
            service.obj_reset_changes()
        everything = types.SimpleNamespace(objects=services)
        objects.ServiceList.get_all = classmethod(lambda cls, context, filters=None: everything)
        # All services stay up, and have the versions of this release.
        objects.Service.is_up = property(lambda self: True)
        rpc.RPCAPI.determine_obj_version_cap = lambda self: base.OBJ_VERSIONS.get_current()
        rpc.RPCAPI.determine_rpc_version_cap = lambda self: self.RPC_API_VERSION

    def report(self, backends: dict) -> None:
        """Process a report of each backend, as it arrives from the message bus."""
        for host, pools in backends.items():
            # The volume manager adds the allocated capacity to a driver's report.
            stats = [{**pool, "allocated_capacity_gb": 0, "filter_function": None} for pool in pools]
            report = {"volume_backend_name": host, "pools": stats, "storage_protocol": "iSCSI"}
            self._hosts.update_service_capabilities("volume", host, report, None, timeutils.utcnow())

    def apply(self) -> None:
        """Apply the reports to the pools, as Cinder does for each decision."""
        self._hosts._update_backend_state_map(self._context)

    def decide(self) -> str:
        """Decide one request and count it in its pool."""
        size = next(self._sizes)
        volume_type = {"id": "gold", "name": "gold", "extra_specs": workload.EXTRA_SPECS}
        properties = {"size": size, "availability_zone": None, "volume_type_id": "gold"}
        spec = {
            "volume_id": "v",
            "volume_type": volume_type,
            "volume_properties": properties,
            "resource_properties": properties,
        }
        chosen = self._scheduler._schedule(self._context, spec, {})
        return chosen.obj.backend_id


def main() -> None:
    """Measure decisions or reports, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["decisions", "reports"])
    parser.add_argument("--pools", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    cinder = Cinder(args.pools)
    if args.what == "decisions":
        print(
            json.dumps(
                {"bytes_per_pool": cinder.bytes_per_pool, "decision_ms": workload.timed(cinder.decide, args.seconds)}
            )
        )
        return
    days = iter(range(1, 1_000_000))
    waiting: list[dict] = []

    def ingest() -> None:
        cinder.report(waiting.pop())
        cinder.apply()

    def changed() -> None:
        waiting.append(workload.reports(args.pools, next(days)))

    found = {"changed_ms": workload.timed(ingest, args.seconds, before=changed)}
    last = workload.reports(args.pools, next(days))
    found["unchanged_ms"] = workload.timed(ingest, args.seconds, before=lambda: waiting.append(copy.deepcopy(last)))
    print(json.dumps({"bytes_per_pool": cinder.bytes_per_pool, **found}))


if __name__ == "__main__":
    main()
