# SPDX-License-Identifier: Apache-2.0
"""Configuration files of daemons that run on their own, with backends of the driver ``memory``."""

import pathlib

from tests.servers import base, ledger_schema
from tests.servers.base import wait_for
from tonnage.ledger.db import database


class DaemonFiles:
    """A configuration file, and beside it a ledger with its tables and the log of a daemon."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.conf = folder / "tonnage.conf"
        self.port = base.free_port()
        #: The ports of the metrics, by daemon.
        self.metrics_ports = {daemon: base.free_port() for daemon in ("scheduler", "api")}
        self._folder = folder

    def make_ledger(self) -> None:
        """Make the ledger."""
        engine = database.create_engine(f"sqlite:///{self._folder}/ledger.sqlite")
        ledger_schema.create(engine)
        engine.dispose()

    def write(self, *backends: str, **options: object) -> pathlib.Path:
        """Write the file with these enabled backends and options of ``[DEFAULT]``, and return its path."""
        defaults = {
            "host": "h",
            "state_path": self._folder,
            "transport_url": "kombu+memory://",
            "osapi_volume_listen_port": self.port,
            "enabled_backends": ", ".join(backends),
            "enabled_extensions": "",
        }
        lines = [f"{name} = {value}" for name, value in {**defaults, **options}.items()]
        sections = [f"[{name}]\nvolume_driver = memory" for name in backends]
        metrics = [f"{daemon}_listen_port = {port}" for daemon, port in self.metrics_ports.items()]
        self.conf.write_text(
            "\n".join(
                [
                    "[DEFAULT]",
                    *lines,
                    f"[database]\nconnection = sqlite:///{self._folder}/ledger.sqlite",
                    "[metrics]\nenabled = true",
                    *metrics,
                    *sections,
                ]
            )
        )
        return self.conf


def wait_for_line(log: pathlib.Path, text: str) -> None:
    """Wait until a log has this text."""
    wait_for(lambda: log.exists() and text in log.read_text(encoding="utf-8"), f"the log tells {text!r}")
