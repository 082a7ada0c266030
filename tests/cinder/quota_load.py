# SPDX-License-Identifier: Apache-2.0
"""Clients of two projects at the limits of their quotas, and an administrator who resets volumes of dead services."""

import concurrent.futures
import contextlib
import datetime
import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from tests.cinder.operations import GROUPS, action
from tests.cinder.quota_site import QuotaSite, client_of
from tests.servers import Cinder
from tests.servers.base import wait_for
from tests.servers.cinder import PROJECT

#: The project that gives and takes volumes by transfers.
OTHER = "2" * 32

#: The types of the volumes.
TYPES = ("gold", "silver")

#: The limits of the projects.
LIMITS: Mapping[str, Mapping[str, int]] = {
    PROJECT: {
        "volumes": 10,
        "gigabytes": 24,
        "snapshots": 6,
        "backups": 3,
        "backup_gigabytes": 5,
        "groups": 2,
        "volumes_gold": 6,
        "gigabytes_silver": 12,
        "snapshots_gold": 4,
    },
    OTHER: {"volumes": 5, "gigabytes": 10, "snapshots": 4, "backups": 2, "groups": 1, "volumes_silver": 3},
}

_CLIENTS = 4

#: The statuses of rows while an operation is under way, by table.
_UNDER_WAY: Mapping[str, tuple[str, ...]] = {
    "volumes": ("creating", "downloading", "extending", "retyping", "backing-up", "deleting", "awaiting-transfer"),
    "snapshots": ("creating", "backing-up", "deleting"),
    "backups": ("creating", "deleting"),
    "groups": ("creating", "updating", "deleting"),
    "group_snapshots": ("creating", "deleting"),
}

#: Seconds after which an operation that is still under way has lost its service. The longest takes the time of an RPC.
_PATIENCE = 30.0

#: The same of operations whose success after the reset would exceed a limit: their message may wait while services
#: start again.
_LONG_PATIENCE = 60.0

_LONG = ("extending", "retyping", "awaiting-transfer")

#: Statements that let volumes and snapshots be deleted whose group was deleted while they were made.
_RELEASES = (
    "UPDATE volumes SET group_id = NULL WHERE deleted = :d AND status = 'error' "
    "AND group_id IN (SELECT id FROM groups WHERE deleted = :u)",
    "UPDATE snapshots SET group_snapshot_id = NULL WHERE deleted = :d AND status = 'error' "
    "AND group_snapshot_id IS NOT NULL",
)

#: The conditions of rows that can be deleted.
_DELETABLE = {
    "volumes": "status IN ('available', 'error', 'error_deleting', 'error_extending') AND group_id IS NULL",
    "snapshots": "status IN ('available', 'error', 'error_deleting') AND group_snapshot_id IS NULL",
    "backups": "status IN ('available', 'error', 'error_deleting')",
    "groups": "status IN ('available', 'error', 'error_deleting')",
    "group_snapshots": "status IN ('available', 'error', 'error_deleting')",
}

#: The condition of volumes on which operations can begin.
_USABLE = "status = 'available' AND group_id IS NULL"


class QuotaLoad:
    """The requests of two projects through these interfaces, and the largest use of each resource meanwhile."""

    def __init__(self, site: QuotaSite, apis: Sequence[Cinder], limits: Mapping[str, Mapping[str, int]]) -> None:
        self._site, self._limits = site, limits
        self._clients = [{project: client_of(api, project) for project in limits} for api in apis]
        self.requests: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.resets: Counter[str] = Counter()
        self._reset_rows: list[str] = []
        self._excess: dict[tuple[str, str], Any] = {}
        self._allowed: dict[tuple[str, str], int] = {}
        self.most: dict[str, Counter[str]] = {project: Counter() for project in limits}
        self._operations: dict[str, Callable[[str, random.Random], None]] = {
            "create": self._create,
            "extend": self._extend,
            "retype": self._retype,
            "transfer": self._transfer,
            "snapshot": self._snapshot,
            "backup": self._back_up,
            "group": self._create_group,
            "member": self._create_member,
            "group snapshot": self._create_group_snapshot,
            "delete": self._delete_volume,
            "delete snapshot": self._delete_row("snapshots"),
            "delete backup": self._delete_row("backups"),
            "delete group snapshot": self._delete_row("group_snapshots"),
            "delete group": self._delete_group,
        }
        #: How often an operation is chosen: projects shall stay at their limits.
        self._weights = {"create": 5, "extend": 3, "retype": 2, "transfer": 2, "member": 2, "delete": 2}

    def prepare(self) -> None:
        """Create the types, and set the limits."""
        cinder = self._site.cinder
        kinds = [cinder.request("POST", "/types", {"volume_type": {"name": name}}) for name in TYPES]
        self._types = {name: kind["volume_type"]["id"] for name, kind in zip(TYPES, kinds, strict=True)}
        body = {"group_type": {"name": "group"}}
        self._group_type = cinder.request("POST", "/group_types", body, GROUPS)["group_type"]["id"]
        for project, limits in self._limits.items():
            self._site.limit(project, **limits)

    @contextlib.contextmanager
    def running(self) -> Iterator[threading.Event]:
        """Let clients send requests until the event; the administrator resets statuses until the end of the context."""
        end_of_requests, end = threading.Event(), threading.Event()
        with concurrent.futures.ThreadPoolExecutor(_CLIENTS + 2) as threads:
            tasks = [threads.submit(self._watch, end), threads.submit(self._reset, end)]
            tasks += [threads.submit(self._ask, seed, end_of_requests) for seed in range(_CLIENTS)]
            try:
                yield end_of_requests
            finally:
                end_of_requests.set()
                end.set()
        for task in tasks:
            task.result()

    def _ask(self, seed: int, ended: threading.Event) -> None:
        """Send requests until the event."""
        chance = random.Random(seed)
        names = list(self._operations)
        weights = [self._weights.get(name, 1) for name in names]
        while not ended.is_set():
            [name] = chance.choices(names, weights)
            project = chance.choice([PROJECT, PROJECT, OTHER])
            try:
                self._operations[name](project, chance)
            except LookupError:
                self.refusals["no row to choose"] += 1
            except (OSError, http.client.HTTPException):
                self.refusals["no answer"] += 1
            except ValueError as refusal:
                self.refusals["quota" if "413 " in str(refusal) or "xceed" in str(refusal) else "other"] += 1
            else:
                self.requests[name] += 1
                continue
            ended.wait(0.2)

    def _watch(self, ended: threading.Event) -> None:
        """Note the largest use of both projects by their rows until the event."""
        while not ended.is_set():
            began = time.monotonic()
            for project, most in self.most.items():
                for resource, used in self._site.rows(project, TYPES).items():
                    most[resource] = max(most[resource], used)
                    if used > self._largest(project, resource, used):
                        self._note_excess(project, resource, used)
            ended.wait(max(0.1, 3 * (time.monotonic() - began)))  # a large project takes its time

    def _largest(self, project: str, resource: str, used: int) -> int:
        """Return the largest use that is allowed: the limit, or a use above it that has not grown since."""
        limit = self._limits[project].get(resource, used)
        self._allowed[project, resource] = max(limit, min(self._allowed.get((project, resource), limit), used))
        return self._allowed[project, resource]

    def _note_excess(self, project: str, resource: str, used: int) -> None:
        """Note the rows of a project when it is first above a limit."""
        if (project, resource) in self._excess:
            return
        columns = "SELECT id, status, previous_status, size, volume_type_id, created_at, updated_at"
        self._excess[project, resource] = {
            "used": used,
            "at": datetime.datetime.now(datetime.UTC).isoformat(),
            "volumes": self._site.all(f"{columns} FROM volumes WHERE deleted = :d AND project_id = :p", p=project),
            "reservations": self._site.all("SELECT uuid, resource, delta, created_at FROM reservations"),
            "types": self._types,
            "reset": self._reset_rows[-10:],
        }

    def _reset(self, ended: threading.Event) -> None:
        """Reset the status of rows whose operation has lost its service, and release rows of groups that are gone."""
        begun: dict[tuple[str, str, str], float] = {}
        while not ended.is_set():
            now = time.monotonic()
            rows = self.under_way()
            begun = {row: begun.get(row, now) for row in rows}
            for table, row_id, status in rows:
                patience = _LONG_PATIENCE if status in _LONG else _PATIENCE
                if now - begun[table, row_id, status] > patience:
                    statement = f"UPDATE {table} SET status = 'error' WHERE id = :i AND status = :s"
                    with contextlib.suppress(sa.exc.OperationalError):  # such as a deadlock
                        self._site.execute(statement, i=row_id, s=status)
                        self.resets[f"{table} {status}"] += 1
                        moment = datetime.datetime.now(datetime.UTC).isoformat()
                        self._reset_rows.append(f"{moment} {table} {row_id} {status}")
            for statement in _RELEASES:
                with contextlib.suppress(sa.exc.OperationalError):
                    self._site.execute(statement)
            ended.wait(0.5)

    def under_way(self) -> list[tuple[str, str, str]]:
        """Return table, id and status of the rows with an operation under way."""
        return [
            (table, row.id, row.status)
            for table, statuses in _UNDER_WAY.items()
            for row in self._site.all(f"SELECT id, status FROM {table} WHERE deleted = :d AND status IN {statuses!r}")
        ]

    def rest(self) -> None:
        """Wait until no operation is under way. The administrator still has to reset statuses meanwhile."""
        wait_for(lambda: not self.under_way(), "no operation is under way", 4 * _LONG_PATIENCE)

    def forget(self) -> None:
        """Forget the largest uses, and the limits that were exceeded: a use above a limit may not grow from now on."""
        for project in self.most:
            for resource, used in self._site.rows(project, TYPES).items():
                self._allowed[project, resource] = used
        self._excess.clear()
        for most in self.most.values():
            most.clear()

    def exceeded(self) -> dict[tuple[str, str], Any]:
        """Return the state when a limit was first exceeded, by project and resource."""
        return dict(self._excess)

    def has_all(self) -> bool:
        """Return whether each operation has succeeded, and a limit has refused one."""
        return self.requests.keys() == self._operations.keys() and self.refusals["quota"] > 0

    def _client(self, chance: random.Random, project: str) -> Cinder:
        return chance.choice(self._clients)[project]

    def _choose(self, chance: random.Random, table: str, project: str, condition: str) -> Any:
        """Return a row of a project. Raises IndexError if there is none."""
        rows = self._site.all(
            f"SELECT * FROM {table} WHERE deleted = :d AND project_id = :p AND {condition}", p=project
        )
        return chance.choice(rows)

    def _create(self, project: str, chance: random.Random) -> None:
        self._client(chance, project).create(chance.choice([1, 2]), volume_type=chance.choice(TYPES))

    def _extend(self, project: str, chance: random.Random) -> None:
        volume = self._choose(chance, "volumes", project, _USABLE)
        new_size = volume.size + chance.choice([1, 2])
        action(self._client(chance, project), volume.id, "os-extend", {"new_size": new_size})

    def _retype(self, project: str, chance: random.Random) -> None:
        volume = self._choose(chance, "volumes", project, _USABLE)
        [new_type] = [name for name in TYPES if self._types[name] != volume.volume_type_id]
        body = {"new_type": new_type, "migration_policy": "never"}
        action(self._client(chance, project), volume.id, "os-retype", body)

    def _transfer(self, project: str, chance: random.Random) -> None:
        volume = self._choose(chance, "volumes", project, _USABLE)
        client = self._client(chance, project)
        transfer = client.request("POST", "/os-volume-transfer", {"transfer": {"volume_id": volume.id}})["transfer"]
        path = f"/os-volume-transfer/{transfer['id']}"
        [taker] = [other for other in self._limits if other != project]
        try:
            body = {"accept": {"auth_key": transfer["auth_key"]}}
            self._client(chance, taker).request("POST", f"{path}/accept", body)
        except ValueError:
            client.request("DELETE", path)
            raise

    def _snapshot(self, project: str, chance: random.Random) -> None:
        volume = self._choose(chance, "volumes", project, _USABLE)
        self._client(chance, project).request("POST", "/snapshots", {"snapshot": {"volume_id": volume.id}})

    def _back_up(self, project: str, chance: random.Random) -> None:
        volume = self._choose(chance, "volumes", project, _USABLE)
        self._client(chance, project).request("POST", "/backups", {"backup": {"volume_id": volume.id, "name": "b"}})

    def _create_group(self, project: str, chance: random.Random) -> None:
        body = {"name": "g", "group_type": self._group_type, "volume_types": list(self._types.values())}
        self._client(chance, project).request("POST", "/groups", {"group": body}, GROUPS)

    def _create_member(self, project: str, chance: random.Random) -> None:
        group = self._choose(chance, "groups", project, "status = 'available'")
        body = {"size": 1, "group_id": group.id, "volume_type": chance.choice(TYPES)}
        self._client(chance, project).request("POST", "/volumes", {"volume": body}, GROUPS)

    def _create_group_snapshot(self, project: str, chance: random.Random) -> None:
        group = self._choose(chance, "groups", project, "status = 'available'")
        body = {"group_snapshot": {"group_id": group.id, "name": "s"}}
        self._client(chance, project).request("POST", "/group_snapshots", body, GROUPS)

    def _delete_volume(self, project: str, chance: random.Random) -> None:
        volume = self._choose(chance, "volumes", project, _DELETABLE["volumes"])
        self._client(chance, project).request("DELETE", f"/volumes/{volume.id}?cascade=True")

    def _delete_row(self, table: str) -> Callable[[Cinder, str, random.Random], None]:
        def delete(project: str, chance: random.Random) -> None:
            row = self._choose(chance, table, project, _DELETABLE[table])
            self._client(chance, project).request("DELETE", f"/{table}/{row.id}", None, GROUPS)

        return delete

    def _delete_group(self, project: str, chance: random.Random) -> None:
        group = self._choose(chance, "groups", project, _DELETABLE["groups"])
        body = {"delete": {"delete-volumes": True}}
        self._client(chance, project).request("POST", f"/groups/{group.id}/action", body, GROUPS)
