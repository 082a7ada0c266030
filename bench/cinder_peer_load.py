# SPDX-License-Identifier: Apache-2.0
"""The services around Cinder's scheduler in the throughput benchmark.

It runs with the Python that Cinder is installed in. It simulates the volume services, which report their pools and
count the requests from the scheduler, and the API, which has volumes in the database and asks the scheduler for a pool
for each, several at a time. Both use Cinder's own RPC. The command ``known`` returns the number of pools that the
scheduler knows.
"""

from __future__ import annotations  # Cinder's objects have their classes only later

import argparse
import json
import threading
import time

from cinder import monkey_patch

monkey_patch.patch()

import load  # noqa: E402
import oslo_messaging as messaging  # noqa: E402
from cinder import (  # noqa: E402
    context,
    objects,
    rpc,
    version,
)
from cinder.common import config  # noqa: E402, F401
from cinder.objects import base  # noqa: E402
from cinder.scheduler import rpcapi as scheduler_rpcapi  # noqa: E402
from cinder.volume import rpcapi as volume_rpcapi  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_log import log as logging  # noqa: E402

CONF = cfg.CONF  # noqa: TID251  (Cinder knows no other)

#: Seconds between two heartbeats of a service, and between two reports of its pools: Cinder's defaults.
_ALIVE = 10.0
_REPORT = 60.0

#: Size of a pool in GiB, so large that no pool is ever full.
_ROOMY = 10_000_000

_USER = "00000000000000000000000000000001"


class Arrivals:
    """The RPC endpoint of all volume services. It counts the placed volumes and the seconds from their requests."""

    target = messaging.Target(version=volume_rpcapi.VolumeAPI.RPC_API_VERSION)

    def __init__(self, in_flight: int) -> None:
        self.free = threading.Semaphore(in_flight)
        self.wanted = threading.Event()
        self._lock = threading.Lock()
        self._asked: dict[str, float] = {}
        self._seconds: list[float] = []

    def asked(self, volume_id: str) -> None:
        """Record the time of a volume's request."""
        with self._lock:
            self._asked[volume_id] = time.perf_counter()

    def create_volume(self, ctxt, volume, **others) -> None:  # type: ignore[no-untyped-def]
        """Receive a placed volume; only its id is read."""
        now = time.perf_counter()
        with self._lock:
            began = self._asked.pop(volume["versioned_object.data"]["id"], None)
            if began is None:
                return
            self._seconds.append(now - began)
        self.free.release()

    def publish_service_capabilities(self, ctxt) -> None:  # type: ignore[no-untyped-def]
        """Request a report of the pools, as the scheduler does when it starts."""
        self.wanted.set()

    def counts(self) -> str:
        """Return the seconds of each placement, and the number of outstanding placements, as JSON."""
        with self._lock:
            return json.dumps({"seconds": self._seconds, "refused": 0, "failed": 0, "missing": len(self._asked)})


class Services:
    """Volume services without storage: each has a row in the database, an RPC server, and reports."""

    def __init__(self, backends: int, pools: int) -> None:
        self._context = context.get_admin_context()
        each, rest = divmod(pools, backends)
        self._pools = {f"volumes@b{n + 1}": each + (n < rest) for n in range(backends)}
        for host in self._pools:
            objects.Service(
                self._context,
                host=host,
                binary="cinder-volume",
                topic="cinder-volume",
                availability_zone="nova",
                rpc_current_version=volume_rpcapi.VolumeAPI.RPC_API_VERSION,
                object_current_version=base.OBJ_VERSIONS.get_current(),
            ).create()

    def serve(self, endpoint: Arrivals) -> None:
        """Listen for the scheduler's messages, and start heartbeats and reports."""
        for topic in ("cinder-volume", *(f"cinder-volume.{host}" for host in self._pools)):
            target = messaging.Target(topic=topic, server="volumes")
            # No serializer, because the volume is not needed as an object here.
            messaging.get_rpc_server(rpc.TRANSPORT, target, [endpoint]).start()
        threading.Thread(target=self._live, args=[endpoint.wanted], daemon=True).start()

    def _live(self, wanted: threading.Event) -> None:
        """Send heartbeats, and reports on request and at intervals, for ever."""
        scheduler = scheduler_rpcapi.SchedulerAPI()
        due = time.monotonic() + _REPORT
        while True:
            if wanted.wait(_ALIVE) or time.monotonic() >= due:
                wanted.clear()
                due = time.monotonic() + _REPORT
                self._report(scheduler)
            for host in self._pools:
                service = objects.Service.get_by_args(self._context, host, "cinder-volume")
                service.report_count += 1
                service.save()

    def _report(self, scheduler: scheduler_rpcapi.SchedulerAPI) -> None:
        for host, count in self._pools.items():
            capabilities = {
                "volume_backend_name": host.partition("@")[2],
                "vendor_name": "none",
                "driver_version": "1",
                "storage_protocol": "none",
                "pools": [_figures(f"pool{number + 1}") for number in range(count)],
            }
            scheduler.update_service_capabilities(self._context, "volume", host, capabilities, None)
            scheduler.notify_service_capabilities(self._context, "volume", host, capabilities)


def _figures(pool: str) -> dict[str, object]:
    return {
        "pool_name": pool,
        "total_capacity_gb": _ROOMY,
        "free_capacity_gb": _ROOMY,
        "allocated_capacity_gb": 0,
        "provisioned_capacity_gb": 0,
        "max_over_subscription_ratio": "20.0",
        "reserved_percentage": 0,
        "thin_provisioning_support": True,
        "thick_provisioning_support": False,
        "QoS_support": False,
        "multiattach": False,
    }


class Requests:
    """The simulated API: it sends volumes in the database to the scheduler."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._context = context.RequestContext(user_id=_USER, project_id=_USER, is_admin=True)
        self._type = objects.VolumeType.get_by_name_or_id(self._context, "__DEFAULT__")
        self._scheduler = scheduler_rpcapi.SchedulerAPI()
        self._volumes: list[objects.Volume] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def prepare(self, count: int) -> None:
        """Create ``count`` volumes in the database, so that their creation does not delay the measurement."""
        self._volumes += [self._volume() for _ in range(count)]

    def known(self) -> int:
        """Return the number of pools that the scheduler knows, 0 if it does not answer."""
        try:
            return len(self._scheduler.get_pools(self._context, filters={}))
        except messaging.MessagingException:
            return 0

    def start(self) -> None:
        """Start to send requests."""
        self._thread.start()

    def stop(self) -> None:
        """Stop to send requests."""
        self._stopping.set()
        self._thread.join()

    def counts(self) -> str:
        """Return the counts of the placements, as JSON."""
        return self._arrivals.counts()

    def _ask(self) -> None:
        while not self._stopping.is_set():
            if not self._arrivals.free.acquire(timeout=0.5):
                continue
            volume = self._volumes.pop() if self._volumes else self._volume()
            spec = objects.RequestSpec(
                volume_id=volume.id,
                volume=volume,
                volume_type=self._type,
                volume_properties=objects.VolumeProperties(
                    size=volume.size,
                    user_id=volume.user_id,
                    project_id=volume.project_id,
                    status=volume.status,
                    attach_status=volume.attach_status,
                    display_name=volume.display_name,
                    display_description=None,
                    multiattach=False,
                    volume_type_id=volume.volume_type_id,
                    availability_zone=None,
                ),
                source_volid=None,
                snapshot_id=None,
                image_id=None,
                consistencygroup_id=None,
                cgsnapshot_id=None,
                group_id=None,
                backup_id=None,
                availability_zones=["nova"],
            )
            self._arrivals.asked(volume.id)
            self._scheduler.create_volume(self._context, volume, request_spec=spec, filter_properties={})

    def _volume(self) -> objects.Volume:
        volume = objects.Volume(
            context=self._context,
            size=1,
            user_id=_USER,
            project_id=_USER,
            status="creating",
            attach_status="detached",
            display_name="bench",
            multiattach=False,
            bootable=False,
            use_quota=True,
            volume_type_id=self._type.id,
            availability_zone=None,
        )
        volume.create()
        return volume


def main() -> None:
    """Execute the benchmark's commands from standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--config-file", required=True)
    parser.add_argument("--in-flight", type=int, default=64)
    parser.add_argument("--backends", type=int, default=10)
    parser.add_argument("--pools", type=int, default=1000)
    parser.add_argument("--volumes", type=int, default=1000)
    arguments = parser.parse_args()
    objects.register_all()
    CONF(["--config-file", arguments.config_file], project="cinder", version=version.version_string())
    logging.setup(CONF, "cinder")
    rpc.init(CONF)
    services = Services(arguments.backends, arguments.pools)
    arrivals = Arrivals(arguments.in_flight)
    services.serve(arrivals)
    requests = Requests(arrivals)
    requests.prepare(arguments.volumes)
    load.talk(requests, {"known": lambda: str(requests.known())})


if __name__ == "__main__":
    main()
