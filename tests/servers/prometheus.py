# SPDX-License-Identifier: Apache-2.0
"""A private Prometheus, and its program to check metrics."""

import json
import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import requests

from tests.servers import base


class Prometheus(base.Server):
    """A Prometheus that scrapes every second, and evaluates the rules of a file as often.

    ``jobs`` maps paths to the addresses that have them.
    """

    name = "Prometheus"
    packages = "prometheus"

    def __init__(self, jobs: Mapping[str, Sequence[str]] | None = None, rules: pathlib.Path | None = None) -> None:
        super().__init__()
        self._jobs = jobs or {}
        self._rules = [] if rules is None else [str(rules)]

    @classmethod
    def installed(cls) -> bool:
        return all(base.find(name) for name in ("prometheus", "promtool"))

    def prepare(self) -> None:
        scrapes = [
            {"job_name": path.strip("/"), "metrics_path": path, "static_configs": [{"targets": list(addresses)}]}
            for path, addresses in self._jobs.items()
        ]
        every_second = {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"}
        conf = {"global": every_second, "scrape_configs": scrapes, "rule_files": self._rules}
        (self.folder / "prometheus.json").write_text(json.dumps(conf))  # JSON is YAML, too
        self._address = f"127.0.0.1:{base.free_port()}"
        self.url = f"http://{self._address}"

    def launch(self) -> "subprocess.Popen[bytes]":
        return self.popen(
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
        found = self.values(query)
        assert len(found) <= 1, found
        return found[0] if found else None

    def values(self, query: str) -> list[float]:
        """Return the values that a query has now, without their labels. A query that does not parse is an error."""
        answer = requests.get(f"{self.url}/api/v1/query", params={"query": query}, timeout=30).json()
        assert answer["status"] == "success", (query, answer)
        return [float(each["value"][1]) for each in answer["data"]["result"]]

    def rules(self) -> list[dict[str, Any]]:
        """Return the rules, each with its ``health`` (``ok`` after an evaluation without an error) and ``query``."""
        groups = requests.get(f"{self.url}/api/v1/rules", timeout=30).json()["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


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
