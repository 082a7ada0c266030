# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the API of Cinder with the conditions of ``cinder.volume.api`` for moves, in memory.

``tests/cinder/test_relocation.py`` runs the same with a real Cinder. Answers have the keys of microversion 3.61.
"""

import contextlib
import datetime
import http.server
import json
import threading
import urllib.parse
import uuid
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

from oslo_config import cfg

from tests.unit.scheduler import ledgers
from tonnage.extensions.relocation.cinder_client import CinderClient
from tonnage.extensions.relocation.cinder_mover import CinderMover
from tonnage.extensions.relocation.cloud_planner import CloudPlanner
from tonnage.extensions.relocation.relocation import rules_of
from tonnage.ledger.db.database import Database
from tonnage.scheduler.configuration import settings
from tonnage.scheduler.requests.pool_selection import Rules

#: The address and the project in the endpoint.
CLOUD = "http://cinder.example:8776"
PROJECT = "11111111111111111111111111111111"

#: Seconds between two reports.
INTERVAL = 60.0

A, B, C = "h@a#p", "h@b#p", "h@c#p"


def type_id(name: str) -> str:
    """Return the id of the volume type with a name."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


class CloudApi:
    """Pools with volumes. ``page`` is the most objects of a page, ``status`` an error that every answer is."""

    def __init__(self, pools: Mapping[str, float], **capabilities: Any) -> None:
        self.now = datetime.datetime.fromisoformat("2030-01-01T12:00:00")
        self.pools = {name: {"total": total, **capabilities} for name, total in pools.items()}
        self.services: dict[str, dict[str, Any]] = {
            name.partition("#")[0]: {"status": "enabled", "state": "up"} for name in pools
        }
        self.volumes: dict[str, dict[str, Any]] = {}
        self.snapshots: list[tuple[str, str]] = []
        self.types: dict[str, dict[str, str]] = {"__DEFAULT__": {}}
        self.page, self.status = 1000, 0
        #: The backends that have not reported since Cinder's scheduler has begun.
        self.silent: set[str] = set()
        self.requests: list[tuple[str, str, Any]] = []
        #: The pools for which Cinder's scheduler has no room, and the volumes that it has ordered to move.
        self.refused: set[str] = set()
        self.targets: dict[str, str] = {}

    def add(self, pool: str | None, size: int, **fields: Any) -> str:
        """Add a volume that was made an hour ago, and return its id."""
        volume_id = str(uuid.uuid5(uuid.NAMESPACE_OID, str(len(self.volumes))))
        time = (self.now - datetime.timedelta(hours=1)).isoformat()
        self.volumes[volume_id] = {
            "id": volume_id,
            "size": size,
            "status": "available",
            "volume_type": "__DEFAULT__",
            "availability_zone": "nova",
            "attachments": [],
            "multiattach": False,
            "encrypted": False,
            "replication_status": None,
            "group_id": None,
            "consistencygroup_id": None,
            "cluster_name": None,
            "created_at": time,
            "updated_at": time,
            "os-vol-host-attr:host": pool,
            "os-vol-mig-status-attr:migstat": None,
            "os-vol-tenant-attr:tenant_id": PROJECT,
            **fields,
        }
        return volume_id

    def change(self, volume_id: str, **fields: Any) -> None:
        """Change a volume at this moment."""
        keys = {"host": "os-vol-host-attr:host", "migration_status": "os-vol-mig-status-attr:migstat"}
        values = {keys.get(key, key): value for key, value in fields.items()}
        self.volumes[volume_id].update(values, updated_at=self.now.isoformat())

    def places(self) -> dict[str, str]:
        """Return the pools of the volumes."""
        return {volume_id: volume["os-vol-host-attr:host"] for volume_id, volume in self.volumes.items()}

    def pass_time(self, seconds: float = 1.0) -> None:
        """Let time pass, and end all moves."""
        self.now += datetime.timedelta(seconds=seconds)
        for volume_id, target in self.targets.items():
            fails = target in self.refused
            self.change(
                volume_id,
                **({} if fails else {"host": target}),
                status="available" if self.volumes[volume_id]["status"] == "maintenance" else "in-use",
                migration_status="error" if fails else "success",
            )
        self.targets.clear()

    def answer(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Return the status and the body of the answer to a request."""
        path, _, query = path.partition("?")
        parameters = dict(urllib.parse.parse_qsl(query))
        self.requests.append((method, path, body))
        if self.status:
            return self.status, {"error": {"code": self.status, "message": "it is down"}}
        match path.strip("/").split("/"):
            case ["volumes", "detail"]:
                return self._list("volumes", list(self.volumes.values()), parameters)
            case ["volumes", volume_id, "action"]:
                return self._act(volume_id, body)
            case ["volumes", volume_id] if volume_id in self.volumes:
                return 200, {"volume": self.volumes[volume_id]}
            case ["snapshots"]:
                rows = [{"id": snapshot_id, "volume_id": of} for snapshot_id, of in self.snapshots]
                return self._list("snapshots", rows, parameters)
            case ["types"]:
                rows = [{"id": type_id(name), "name": name, "extra_specs": specs} for name, specs in self.types.items()]
                return self._list("volume_types", rows, parameters)
            case ["scheduler-stats", "get_pools"]:
                return 200, {"pools": [self._pool(*pool) for pool in self.pools.items() if self._is_shown(pool[0])]}
            case ["os-services"]:
                return 200, {"services": [{"host": name, "zone": "nova", **s} for name, s in self.services.items()]}
        return 404, {"itemNotFound": {"code": 404, "message": f"{path} could not be found."}}

    def _is_shown(self, pool: str) -> bool:
        """Return whether Cinder's scheduler shows a pool: those of services that are enabled, up and not frozen, and
        that have reported.
        """
        backend = pool.partition("#")[0]
        if backend in self.silent:
            return False
        services = [row for host, row in self.services.items() if row.get("cluster", host) == backend]
        return any(
            (row["status"], row["state"], row.get("frozen", False)) == ("enabled", "up", False) for row in services
        )

    def _pool(self, name: str, figures: Mapping[str, Any]) -> dict[str, Any]:
        sizes = sum(volume["size"] for volume in self.volumes.values() if volume["os-vol-host-attr:host"] == name)
        return {
            "name": name,
            "capabilities": {
                "pool_name": "p",
                "total_capacity_gb": figures["total"],
                "free_capacity_gb": figures["total"] - sizes,
                "provisioned_capacity_gb": sizes,
                "allocated_capacity_gb": sizes,
                "thick_provisioning_support": True,
                "reserved_percentage": 0,
                "max_over_subscription_ratio": "1.0",
                "timestamp": self.now.isoformat(),
                **{key: value for key, value in figures.items() if key != "total"},
            },
        }

    def _list(self, key: str, rows: list[dict[str, Any]], parameters: Mapping[str, str]) -> tuple[int, Any]:
        for name in ("created_at", "updated_at"):
            if (limit := parameters.get(name, "")).startswith("gte:"):
                rows = [row for row in rows if row[name] >= limit.removeprefix("gte:")]
        if volume_id := parameters.get("volume_id"):
            rows = [row for row in rows if row["volume_id"] == volume_id]
        if marker := parameters.get("marker"):
            ids = [row["id"] for row in rows]
            if marker not in ids:
                return 404, {"itemNotFound": {"code": 404, "message": f"marker {marker} could not be found."}}
            rows = rows[ids.index(marker) + 1 :]
        body: dict[str, Any] = {key: rows[: self.page]}
        if len(rows) > self.page:
            body[f"{key}_links"] = [{"rel": "next", "href": "..."}]
        return 200, body

    def _act(self, volume_id: str, body: Mapping[str, Any]) -> tuple[int, Any]:
        volume = self.volumes.get(volume_id)
        if volume is None:
            return 404, {"itemNotFound": {"code": 404, "message": f"Volume {volume_id} could not be found."}}
        [(name, values)] = body.items()
        at_rest = volume["os-vol-mig-status-attr:migstat"] in (None, "deleting", "error", "success")
        is_free = volume["status"] in ("available", "in-use") and at_rest and not volume["group_id"]
        if name == "os-migrate_volume":
            target = values.get("host") or values.get("cluster")
            has_snapshots = any(of == volume_id for _, of in self.snapshots)
            if not is_free or has_snapshots or volume["os-vol-host-attr:host"] == target:
                return 400, {"badRequest": {"code": 400, "message": f"Volume {volume_id} status must be available"}}
            self.targets[volume_id] = target
            is_locked = values["lock_volume"] and volume["status"] == "available"
            status = "maintenance" if is_locked else volume["status"]
            self.change(volume_id, status=status, migration_status="migrating")
            return 202, None
        if not is_free or volume["volume_type"] == values["new_type"]:
            return 400, {"badRequest": {"code": 400, "message": "Retype needs volume to be in available state"}}
        backend = self.types[values["new_type"]].get("volume_backend_name")
        pool = next(pool for pool, figures in self.pools.items() if figures.get("volume_backend_name") == backend)
        self.change(volume_id, volume_type=values["new_type"], host=pool)
        return 202, None


class CloudSession:
    """A session of keystoneauth with the account of an administrator, without a network."""

    def __init__(self, api: CloudApi) -> None:
        self.api = api

    def request(self, url: str, method: str, *, headers: Any, raise_exc: bool, json: Any = None) -> Any:
        """Return the answer of the API."""
        assert headers["OpenStack-API-Version"].startswith("volume 3.")
        assert not raise_exc
        status, body = self.api.answer(method, url.removeprefix(f"{CLOUD}/v3/{PROJECT}"), json)
        content = b"" if body is None else _bytes(body)
        return SimpleNamespace(status_code=status, content=content, json=lambda: _value(content), reason="reason")


def _bytes(body: Any) -> bytes:
    return json.dumps(body).encode()


def _value(content: bytes) -> Any:
    return json.loads(content)


class CloudWorld:
    """A cloud with the ledger of its plans."""

    def __init__(self, api: CloudApi) -> None:
        self.api = api
        session: Any = CloudSession(api)
        self.client = CinderClient(session, f"{CLOUD}/v3/{PROJECT}")
        self.engine = ledgers.in_memory(self)
        with self.engine.begin() as connection:
            for table in ("move_plan_pools", "move_steps", "move_plans"):
                connection.exec_driver_sql(f"DELETE FROM {table}")
        self.database = Database(self.engine)
        self.planner = CloudPlanner(self.client, rules(), 20.0, INTERVAL, self.database, lambda: api.now)

    def mover(self) -> CinderMover:
        """Return a new mover, as another process has it."""
        return CinderMover(self.client, self.database, self.planner.figures, INTERVAL)


def rules() -> Rules:
    """Return the rules of a configuration without options."""
    conf = cfg.ConfigOpts()
    settings.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    return rules_of(conf)[0]


@contextlib.contextmanager
def served(api: CloudApi) -> Iterator[str]:
    """Serve the API at an address, and give the endpoint."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *arguments: Any) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _answer(self, body: Any) -> None:
            status, content = api.answer(self.command, self.path.removeprefix(f"/v3/{PROJECT}"), body)
            text = b"" if content is None else _bytes(content)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v3/{PROJECT}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
