# SPDX-License-Identifier: Apache-2.0
"""A profile of a process's processor time by stage, with py-spy."""

import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import TypeAlias

import throughput_machine as machine

_RATE = 50

#: Names of stages with a regular expression for the stack. The first match applies.
Stages: TypeAlias = Sequence[tuple[str, str]]

SCHEDULER: Stages = (
    (
        "outcomes",
        r"outcomes \(tonnage/scheduler/|scheduler/agents/outcome_handler\.py|ledger/claims/operation_outcomes\.py",
    ),
    (
        "reports",
        r"scheduler/(agents/(report_handler|deferred_reports)|cache/report_diff)\.py|HostManager\.apply_report",
    ),
    ("requests: filters and weighers", r"\(tonnage/(filters|weighers)/"),
    ("requests: ledger", r"\(tonnage/ledger/"),
    ("requests: commands to agents", r"Dispatcher\.|AgentClient\.|CommandSender|command_sender\.py"),
    ("requests: the rest of the placer", r"Placer\."),
    ("periodic tasks", r"scheduler/periodic/periodic_tasks\.py"),
    ("decoding and encoding", r"rpc/serialization\.py|\(msgspec|\(oslo_serialization/|\(json/"),
    ("message bus", r"\(oslo_messaging/|\(kombu/|\(amqp/|\(futurist/"),
)

API: Stages = (
    ("ledger", r"\(tonnage/ledger/"),
    ("calls to the scheduler", r"\(tonnage/rpc/|\(oslo_messaging/|\(kombu/|\(amqp/"),
    ("policy", r"\(tonnage/api/auth/|\(oslo_policy/"),
    ("request bodies", r"\(tonnage/api/(http/(body|http_request)|schemas/fields|context/volume_requests)\.py"),
    ("response bodies", r"\(tonnage/api/(schemas|resources)/\w+\.py"),
    ("routes, errors and the rest of Falcon", r"\(falcon/|\(tonnage/api/"),
    ("middleware", r"\(webob/|\(oslo_middleware/"),
    ("HTTP", r"\(tornado/|\(asyncio/"),
)


class Watch:
    """A sampling profiler of a process and its children."""

    def __init__(self, pid: int, stages: Stages = SCHEDULER) -> None:
        """Find py-spy. Raises :class:`~throughput_machine.NotAvailable` if it is not installed."""
        program = shutil.which("py-spy", path=f"{pathlib.Path(sys.executable).parent}") or shutil.which("py-spy")
        if program is None:
            raise machine.NotAvailable("no py-spy on this machine; install the dependency group 'bench'")
        self._command = [program, "record", "--pid", str(pid), "--subprocesses", "--nonblocking"]
        self._stages = stages

    def look(self, seconds: int = 10) -> dict[str, float]:
        """Return the share of each stage, the largest first. Raises RuntimeError if py-spy fails."""
        found: collections.Counter[str] = collections.Counter()
        with tempfile.TemporaryDirectory(prefix="tonnage-bench-") as folder:
            file = pathlib.Path(folder) / "stacks"
            length = ["--duration", str(seconds), "--rate", str(_RATE)]
            done = subprocess.run(
                [*self._command, *length, "--format", "raw", "--output", file],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if not file.exists():
                raise RuntimeError(f"py-spy saw nothing: {done.stdout.strip()[-500:]}")
            for line in file.read_text().splitlines():
                stack, _, samples = line.rpartition(" ")
                found[stage(stack, self._stages)] += int(samples)
        total = found.total() or 1
        return {name: count / total for name, count in found.most_common()}


def stage(stack: str, stages: Stages = SCHEDULER) -> str:
    """Return the stage of a stack in py-spy's raw format."""
    for name, pattern in stages:
        if re.search(pattern, stack):
            return name
    return "else"
