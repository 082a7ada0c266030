# SPDX-License-Identifier: Apache-2.0
"""A private Cinder: cinder-api, cinder-scheduler and cinder-volume, from its package in a separate environment."""

import contextlib
import copy
import http.client
import json
import os
import pathlib
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.servers import base

#: The release of Cinder to test with, the newest by default.
RELEASE = os.environ.get("CINDER", "")

#: The folder into which ``tools/install-openstack.sh cinder`` installs this release.
HOME = pathlib.Path(__file__).parents[2] / (f".cinder-{RELEASE}" if RELEASE else ".cinder")

_DRIVERS = pathlib.Path(__file__).parent / "cinder_drivers"

#: The project of all volumes.
PROJECT = "11111111111111111111111111111111"

#: The hosts of a cluster's volume services.
_MEMBERS = ("member1", "member2")

#: The library that lets the clock of a process be wrong.
_WRONG_CLOCK = sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))

_CONFIGURATION = """\
[DEFAULT]
host = real
transport_url = {bus}
auth_strategy = noauth
state_path = {folder}
api_paste_config = {etc}/api-paste.ini
resource_query_filters_file = {etc}/resource_filters.json
rootwrap_config = {etc}/rootwrap.conf
osapi_volume_listen = 127.0.0.1
osapi_volume_listen_port = {port}
osapi_volume_workers = 1
enabled_backends = {backends}
backend_stats_polling_interval = {interval}
periodic_interval = {interval}
periodic_fuzzy_delay = 0
executor_thread_pool_size = 64
quota_volumes = -1
quota_gigabytes = -1
per_volume_size_limit = -1
[database]
connection = {database}
max_pool_size = 70
max_overflow = 10
[oslo_concurrency]
lock_path = {folder}/locks
[os_brick]
lock_path = {folder}/locks
[privsep_osbrick]
helper_command = {bin}/privsep-helper
[cinder_sys_admin]
helper_command = {bin}/privsep-helper
[coordination]
backend_url = file://{folder}/coordination
[oslo_messaging_notifications]
driver = noop
"""

_BACKEND = """\
[{name}]
volume_driver = controlled_file_driver.ControlledFileDriver
volume_backend_name = {name}
files_folder = {folder}/storage/{name}
files_pools = {pools}
files_total_gb = {total_gb}
max_over_subscription_ratio = {ratio}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of an installation. ``total_gb`` is that of each pool, ``interval`` the seconds between two reports.

    ``more`` has more options of the services, ``more_of_backends`` those of each backend. ``ledger`` has the options of
    the group ``[tonnage]``: with it, the schedulers are Tonnage's. With a ``cluster``, two active volume services share
    each backend. ``sections`` are further sections of the configuration, ``project`` and ``token`` those of an
    administrator. With ``eventlet`` the volume service is as by default: on native threads only the first thread that
    downloads an image gets it (``eventlet.tpool`` in ``cinder.image.image_utils``).
    """

    backends: Sequence[str] = ("b1", "b2")
    pools: Sequence[str] = ("a", "b")
    total_gb: float = 100.0
    ratio: str = "1.0"
    interval: int = 5
    schedulers: int = 1
    more: Mapping[str, str] = field(default_factory=dict)
    more_of_backends: Mapping[str, str] = field(default_factory=dict)
    ledger: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    sections: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    project: str = PROJECT
    token: str = f"admin:{PROJECT}"
    eventlet: bool = False


class Cinder(base.Server):
    """Cinder with pools of sparse files in each backend. :attr:`url` is the endpoint of its API."""

    name = "Cinder"
    packages = f"python3-venv, and run tools/install-openstack.sh cinder {RELEASE}".rstrip()

    @classmethod
    def installed(cls) -> bool:
        return (HOME / "bin" / "cinder-volume").exists()

    def __init__(self, database: str, bus: str, shape: Shape | None = None) -> None:
        super().__init__()
        self.database, self.bus = database, bus
        self.shape = shape or Shape()
        self.services: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def pools(self) -> list[str]:
        """The full names of all pools."""
        place = self.shape.cluster or "real"
        return [f"{place}@{name}#{pool}" for name in self.shape.backends for pool in self.shape.pools]

    def prepare(self) -> None:
        self._port = base.free_port()
        self.url = f"http://127.0.0.1:{self._port}/v3/{self.shape.project}"
        for name in ("coordination", "locks"):
            (self.folder / name).mkdir()
        for name in self.shape.backends:
            (self.folder / "storage" / name).mkdir(parents=True)
        text = _CONFIGURATION.format(
            bus=self.bus,
            database=self.database,
            folder=self.folder,
            etc=HOME / "etc" / "cinder",
            bin=HOME / "bin",
            port=self._port,
            backends=", ".join(self.shape.backends),
            interval=self.shape.interval,
        ).replace("[database]", "".join(f"{k} = {v}\n" for k, v in self.shape.more.items()) + "[database]")
        text += "".join(
            _BACKEND.format(
                name=name,
                folder=self.folder,
                pools=", ".join(self.shape.pools),
                total_gb=self.shape.total_gb,
                ratio=self.shape.ratio,
            )
            for name in self.shape.backends
        )
        sections = {"backend_defaults": self.shape.more_of_backends, **self.shape.sections}
        if self.shape.ledger:
            sections["tonnage"] = self.shape.ledger
        for section, options in sections.items():
            text += f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in options.items())
        (self.folder / "cinder.conf").write_text(text)
        for host in _MEMBERS:
            member = f"[DEFAULT]\nhost = {host}\ncluster = {self.shape.cluster}\n"
            (self.folder / f"{host}.conf").write_text(member)
        for number in range(self.shape.schedulers):
            (self.folder / f"scheduler{number}.conf").write_text(f"[DEFAULT]\nhost = controller{number}\n")
        self._run(self._command("cinder-manage", "db", "sync"), env=self._environment(True))

    def _command(self, program: str, *words: str) -> list[str | pathlib.Path]:
        return [HOME / "bin" / program, "--config-file", self.folder / "cinder.conf", *words]

    def _environment(self, patched: bool, clock: float = 0.0) -> dict[str, str]:
        """Return the environment of a service: cinder-api's own server exists only under eventlet."""
        wrong = {
            "LD_PRELOAD": str(_WRONG_CLOCK[0]) if _WRONG_CLOCK else "",
            "FAKETIME": f"{clock:+.0f}",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",
        }
        return {
            **(wrong if clock else {}),
            "PATH": f"{HOME / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
            "PYTHONPATH": str(_DRIVERS),
            "PYTHONWARNINGS": "ignore",
            "OS_CINDER_DISABLE_EVENTLET_PATCHING": "0" if patched else "1",
        }

    def launch(self) -> "subprocess.Popen[bytes]":
        for number in range(self.shape.schedulers):
            self.start_scheduler(number)
        for host in _MEMBERS if self.shape.cluster else ():
            self.start_service(f"volume-{host}", "cinder-volume", patched=self.shape.eventlet, more=f"{host}.conf")
        if not self.shape.cluster:
            self.start_service("volume", "cinder-volume", patched=self.shape.eventlet)
        return self.start_service("api", "cinder-api", patched=True)

    def start_scheduler(self, number: int = 0, clock: float = 0.0) -> None:
        """Start a scheduler on a host of its own: Tonnage's if there is a ledger, else Cinder's own."""
        program = "tonnage-cinder-scheduler" if self.shape.ledger else "cinder-scheduler"
        name = f"scheduler{number}"
        self.start_service(name, program, patched=False, more=f"{name}.conf", clock=clock)

    def start_second_api(self) -> "Cinder":
        """Start the service ``api1``, another cinder-api of this Cinder, and return a client of it when it answers."""
        client = copy.copy(self)
        client._port = base.free_port()
        (self.folder / "api1.conf").write_text(f"[DEFAULT]\nosapi_volume_listen_port = {client._port}\n")
        self.start_service("api1", "cinder-api", patched=True, more="api1.conf")
        base.wait_for(client._ready, "the second API answers")
        return client

    def start_backup_service(self) -> None:
        """Start cinder-backup and wait until it is up."""
        self.start_service("backup", "cinder-backup", patched=False)

        def states() -> list[str]:
            return [each["state"] for each in self.request("GET", "/os-services?binary=cinder-backup")["services"]]

        base.wait_for(lambda: states() == ["up"], "the service for backups is up")

    def start_service(
        self, name: str, program: str, *, patched: bool, more: str | None = None, clock: float = 0.0
    ) -> "subprocess.Popen[bytes]":
        """Start a service, with native threads unless ``patched``; ``more`` is a further configuration file.

        Its clock is ahead by ``clock`` seconds, for which libfaketime must be installed.
        """
        words = [] if more is None else ["--config-file", str(self.folder / more)]
        environment = self._environment(patched, clock)
        process = self.popen(self._command(program, *words), env=environment, log=f"{name}.log")
        self.services[name] = process
        return process

    def end_service(self, name: str, with_signal: signal.Signals = signal.SIGTERM) -> None:
        """End a service and wait for its end."""
        process = self.services.pop(name)
        process.send_signal(with_signal)
        process.wait(self.patience)

    def signal_service(self, name: str, number: signal.Signals) -> None:
        """Send a signal to all processes of a service."""
        os.killpg(self.services[name].pid, number)

    def _ready(self) -> bool:
        with contextlib.suppress(OSError, ValueError, KeyError):
            names = {each["name"] for each in self.request("GET", "/scheduler-stats/get_pools")["pools"]}
            return names == set(self.pools)
        return False

    def _log_end(self) -> str:
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace').strip()[-1500:]}" for log in logs)

    def request(self, method: str, path: str, body: Any = None, version: str = "3.48") -> Any:
        """Send a request to the API and return the answer. Raises ValueError with the text of an error."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        headers = {
            "X-Auth-Token": self.shape.token,
            "Content-Type": "application/json",
            "OpenStack-API-Version": f"volume {version}",
        }
        content = None if body is None else json.dumps(body)
        with contextlib.closing(connection):
            connection.request(method, f"/v3/{self.shape.project}{path}", content, headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        if answer.status >= http.client.BAD_REQUEST:
            raise ValueError(f"{method} {path}: {answer.status} {text[:500]}")
        return json.loads(text) if text else None

    def create(self, size_gb: int, **fields: Any) -> str:
        """Request a volume and return its id."""
        return str(self.request("POST", "/volumes", {"volume": {"size": size_gb, **fields}})["volume"]["id"])

    def volumes(self) -> dict[str, dict[str, Any]]:
        """Return the volumes of all projects by id."""
        found: dict[str, dict[str, Any]] = {}
        marker = ""
        while True:
            page = self.request("GET", f"/volumes/detail?all_tenants=1&limit=1000{marker}")["volumes"]
            found.update({volume["id"]: volume for volume in page})
            if len(page) < 1000:
                return found
            marker = f"&marker={page[-1]['id']}"

    def settled(self, volume_ids: Sequence[str], seconds: float = 120.0) -> dict[str, dict[str, Any]]:
        """Wait until these volumes are available or in error, and return them."""
        wanted = set(volume_ids)

        def reached() -> dict[str, dict[str, Any]] | None:
            found = {key: each for key, each in self.volumes().items() if key in wanted}
            is_done = all(each["status"] in ("available", "error") for each in found.values())
            return found if is_done and len(found) == len(wanted) else None

        done: dict[str, dict[str, Any]] = base.wait_for(reached, "the volumes are available or in error", seconds)
        return done

    def looks(self, backend: str) -> int:
        """Return the number of looks that the driver of a backend has begun."""
        file = self.folder / "storage" / backend / "looks"
        return len(file.read_text().splitlines()) if file.exists() else 0

    def held(self, backend: str) -> int:
        """Return the number of the last look that the order ``looks`` has held, 0 without one."""
        file = self.folder / "storage" / backend / "held"
        return int(file.read_text() or 0) if file.exists() else 0

    def control(self, backend: str, **orders: Any) -> None:
        """Give orders to the driver of a backend, see ``controlled_file_driver``."""
        file = self.folder / "storage" / backend / "control.json"
        written = file.with_suffix(".new")
        written.write_text(json.dumps(orders))
        written.rename(file)
