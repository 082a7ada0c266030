# SPDX-License-Identifier: Apache-2.0
"""A private Prometheus, and its program to check metrics."""

import json
import pathlib
import subprocess
from collections.abc import Mapping, Sequence

import requests

from tests.servers import base


class Prometheus(base.Server):
    """A Prometheus that scrapes every second. ``jobs`` maps paths to the addresses that have them."""

    name = "Prometheus"
    packages = "prometheus"

    def __init__(self, jobs: Mapping[str, Sequence[str]] | None = None) -> None:
        super().__init__()
        self._jobs = jobs or {}

    @classmethod
    def installed(cls) -> bool:
        return all(base.find(name) for name in ("prometheus", "promtool"))

    def _prepare(self) -> None:
        scrapes = [
            {"job_name": path.strip("/"), "metrics_path": path, "static_configs": [{"targets": list(addresses)}]}
            for path, addresses in self._jobs.items()
        ]
        conf = {"global": {"scrape_interval": "1s", "scrape_timeout": "1s"}, "scrape_configs": scrapes}
        (self.folder / "prometheus.json").write_text(json.dumps(conf))  # JSON is YAML, too
        self._address = f"127.0.0.1:{base.free_port()}"
        self.url = f"http://{self._address}"

    def _launch(self) -> "subprocess.Popen[bytes]":
        return self._popen(
            [
                _program("prometheus"),
                f"--config.file={self.folder / 'prometheus.json'}",
                f"--storage.tsdb.path={self.folder / 'data'}",
                f"--web.listen-address={self._address}",
            ]
        )

    def _ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/-/ready", timeout=30).status_code == 200
        except requests.ConnectionError:
            return False

    def value(self, query: str) -> float | None:
        """Return the value of a query with at most one result, None without any."""
        answer = requests.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=30).json()
        assert answer["status"] == "success", answer
        found = answer["data"]["result"]
        assert len(found) <= 1, found
        return float(found[0]["value"][1]) if found else None


def promtool(*arguments: str | pathlib.Path, text: str = "") -> "subprocess.CompletedProcess[str]":
    """Run Prometheus's program for checks, with a text for its input."""
    command = [_program("promtool"), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def objections(text: str) -> str:
    """Return the objections of ``promtool check metrics`` to a page of metrics, empty without any."""
    done = promtool("check", "metrics", text=text)
    return (done.stdout + done.stderr).strip()


def _program(name: str) -> pathlib.Path:
    found = base.find(name)
    assert found is not None
    return found
