# SPDX-License-Identifier: Apache-2.0
"""Cinder's answers to the cases of the differential test. It runs with the Python that Cinder is installed in.

The first line of standard input is the setting: a folder for files, the folder of the older release, and the existing
volumes and instances. Each further line is a case, and its answer is one line: a verdict for each pool, or weights. A
verdict is true, false, or the error of the filter.

All code is Cinder's own: its host manager applies the reports, and volumes are rows of its database. Only Nova is
simulated. From the older release only the capacity filter and the capacity weigher are used, on the newer release's
pools. A function of another module that they call is loaded from the older release too.
"""

from __future__ import annotations  # Cinder's objects have their classes only later

import ast
import datetime
import importlib.util
import json
import math
import os
import pathlib
import sys
import types
import warnings

warnings.simplefilter("ignore")
os.environ["OS_CINDER_DISABLE_EVENTLET_PATCHING"] = "1"

from cinder import objects  # noqa: E402

objects.register_all()

from cinder import (  # noqa: E402
    context,
    rpc,
)
from cinder.common import config  # noqa: E402, F401
from cinder.compute import nova  # noqa: E402
from cinder.db import api as db  # noqa: E402
from cinder.db import migration  # noqa: E402
from cinder.scheduler import (  # noqa: E402
    host_manager,
    weights,
)
from cinder.scheduler.filters import (  # noqa: E402
    affinity_filter,
    availability_zone_filter,
    capabilities_filter,
    capacity_filter,
    driver_filter,
    ignore_attempted_hosts_filter,
    instance_locality_filter,
    json_filter,
)
from cinder.scheduler.weights import capacity as capacity_weights  # noqa: E402
from cinder.scheduler.weights import (  # noqa: E402
    goodness,
    volume_number,
)
from oslo_config import cfg  # noqa: E402

CONF = cfg.CONF  # noqa: TID251  (Cinder knows no other)

_CONF = """\
[DEFAULT]
transport_url = fake://
state_path = {folder}
[database]
connection = sqlite:///{folder}/cinder.db
"""

_FILTERS = {
    "AvailabilityZoneFilter": availability_zone_filter.AvailabilityZoneFilter,
    "CapabilitiesFilter": capabilities_filter.CapabilitiesFilter,
    "DifferentBackendFilter": affinity_filter.DifferentBackendFilter,
    "DriverFilter": driver_filter.DriverFilter,
    "InstanceLocalityFilter": instance_locality_filter.InstanceLocalityFilter,
    "JsonFilter": json_filter.JsonFilter,
    "RetryFilter": ignore_attempted_hosts_filter.IgnoreAttemptedHostsFilter,
    "SameBackendFilter": affinity_filter.SameBackendFilter,
}

_WEIGHERS = {
    "AllocatedCapacityWeigher": (capacity_weights.AllocatedCapacityWeigher, "allocated_capacity_weight_multiplier"),
    "GoodnessWeigher": (goodness.GoodnessWeigher, None),
    "VolumeNumberWeigher": (volume_number.VolumeNumberWeigher, "volume_number_multiplier"),
}


class Older:
    """The capacity filter and the capacity weigher of the older release, loaded from its folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        scheduler = folder / "cinder" / "scheduler"
        self.capacity_filter = _load("older_capacity_filter", scheduler / "filters" / "capacity_filter.py")
        self.capacity_weights = _load("older_capacity_weights", scheduler / "weights" / "capacity.py")
        # The weigher's formula is in a module that the newer release has changed.
        text = (folder / "cinder" / "utils.py").read_text()
        wanted = "calculate_virtual_free_capacity"
        parts = [part for part in ast.parse(text).body if isinstance(part, ast.FunctionDef) and part.name == wanted]
        utils = types.SimpleNamespace(math=math)
        exec(compile(ast.Module(parts, []), "older_utils", "exec"), vars(utils))  # noqa: S102
        self.capacity_weights.utils = utils


def _load(name: str, path: pathlib.Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Nova:
    """The simulated compute service."""

    hosts: dict[str, str] = {}  # noqa: RUF012

    def get_server(self, ctxt, instance_id, privileged_user=False, timeout=None):  # type: ignore[no-untyped-def]
        """Return an instance. An unknown instance has no host."""
        host = self.hosts.get(instance_id)
        return types.SimpleNamespace(**({} if host is None else {instance_locality_filter.INSTANCE_HOST_PROP: host}))


class CinderAnswers:
    """Cinder with one database, which answers cases."""

    def __init__(self, setting: dict) -> None:
        conf = pathlib.Path(setting["folder"]) / "cinder.conf"
        conf.write_text(_CONF.format(folder=setting["folder"]))
        CONF(["--config-file", str(conf)], project="cinder")
        rpc.init(CONF)
        migration.db_sync()
        # Cinder looks up volumes in the project of the request.
        self._context = context.RequestContext("u", "p", is_admin=True)
        self._older = Older(pathlib.Path(setting["older"]))
        kind = db.volume_type_get_by_name(self._context, "__DEFAULT__")["id"]
        for project, volumes in setting["volumes"].items():
            owner = {"project_id": project, "user_id": "u", "volume_type_id": kind}
            for volume_id, host in volumes.items():
                place = {"host": host, "size": 1, "status": "available"}
                db.volume_create(self._context, {"id": volume_id, **owner, **place})
        Nova.hosts = setting["instances"]
        nova.API = Nova
        # The weigher passes the context by keyword, and this release's database accepts it only by position.
        volume_number.db = types.SimpleNamespace(
            volume_data_get_for_host=lambda context, host, count_only: db.volume_data_get_for_host(
                context, host, count_only=count_only
            )
        )

    def answer(self, case: dict) -> object:
        """Return a verdict for each pool, or the weights."""
        CONF.set_override("max_over_subscription_ratio", str(case["ratio"]))
        older = case["calculation"] == "cinder"
        if case["plugin"] == "weighers":
            return self._weigh(case, older)
        kind = _FILTERS.get(case["plugin"])
        if kind is None:
            kind = (self._older.capacity_filter if older else capacity_filter).CapacityFilter
        return [self._passes(kind(), pool, case) for pool in case["pools"]]

    def _passes(self, plugin, pool: dict, case: dict) -> object:  # type: ignore[no-untyped-def]
        try:
            return bool(plugin.backend_passes(_state(pool), self._properties(case["request"])))
        except Exception as error:
            return _failure(error)

    def _weigh(self, case: dict, older: bool) -> object:
        module = self._older.capacity_weights if older else capacity_weights
        classes = {"CapacityWeigher": (module.CapacityWeigher, "capacity_weight_multiplier"), **_WEIGHERS}
        for name, multiplier in case["weighers"].items():
            option = classes[name][1]
            if option is not None:
                CONF.set_override(option, multiplier)
        properties = self._properties(case["request"])
        try:
            states = [_state(pool) for pool in case["pools"]]
            kinds = [classes[name][0] for name in case["weighers"]]
            raw = {
                name: kind().weigh_objects([weights.WeighedHost(state, 0.0) for state in states], properties)
                for name, kind in zip(case["weighers"], kinds)  # noqa: B905
            }
            handler = weights.OrderedHostWeightHandler("cinder.scheduler.weights")
            ordered = handler.get_weighed_objects(kinds, states, properties)
        except Exception as error:
            return _failure(error)
        return {"raw": raw, "totals": {each.obj.host: each.weight for each in ordered}}

    def _properties(self, request: dict) -> dict:
        """Return the properties that Cinder's scheduler passes to filters and weighers."""
        volume_type = {"extra_specs": request["extra_specs"]}
        properties = {
            "context": self._context,
            "size": request["size"],
            "volume_type": volume_type,
            "resource_type": volume_type,
            "qos_specs": request["qos_specs"],
            "scheduler_hints": request["hints"],
            "request_spec": {
                "volume_id": "v",
                "resource_properties": {"availability_zone": request["zone"], "size": request["size"]},
                "volume_properties": {"size": request["size"], "availability_zone": request["zone"]},
            },
        }
        if request["new_size"]:
            properties["new_size"] = request["new_size"]
        if request["attempted"]:
            properties["retry"] = {"backends": request["attempted"], "num_attempts": 2}
        return properties


def _state(pool: dict) -> host_manager.PoolState:
    """Return the scheduler's state of a pool after a report and the later placements."""
    backend, _, name = pool["name"].partition("#")
    # The volume manager adds the allocated capacity to a driver's report.
    stats = {**pool["report"], "pool_name": name, "allocated_capacity_gb": pool["allocated"]}
    state = host_manager.BackendState(backend, None)
    capability = {"pools": [stats], "timestamp": datetime.datetime(2020, 1, 1)}  # noqa: DTZ001
    state.update_from_volume_capability(capability, {"availability_zone": pool["zone"]})
    found = state.pools[name]
    for size in pool["placed"]:
        found.consume_from_volume({"size": size})
    return found


def _failure(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:120]


def main() -> None:
    """Answer each line of standard input."""
    answers, sys.stdout = sys.stdout, sys.stderr
    peer = CinderAnswers(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        answers.write(json.dumps(peer.answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
