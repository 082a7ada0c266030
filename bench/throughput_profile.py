# SPDX-License-Identifier: Apache-2.0
"""Where a process's processor time goes, as py-spy sees it from the outside."""

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

#: Stages by what is found anywhere in a stack, the first one that fits.
Stages: TypeAlias = Sequence[tuple[str, str]]

SCHEDULER: Stages = (
    ("reports", r"ReportHandler\.reports|ReportHandler\._apply|HostManager\.apply_report"),
    ("outcomes", r"ReportHandler\.outcomes|OutcomeHandler\.|\(.*operation_outcomes\.py"),
    ("requests: filters and weighers", r"\(tonnage/(filters|weighers)/"),
    ("requests: ledger", r"\(tonnage/ledger/"),
    ("requests: commands to agents", r"Dispatcher\.|AgentClient\.|Courier|courier\.py"),
    ("requests: the rest of the placer", r"Placer\."),
    ("housekeeping", r"_keep_house"),
    ("decoding and encoding", r"rpc/(wire|answers)\.py|\(msgspec|\(oslo_serialization/|\(json/"),
    ("message bus", r"\(oslo_messaging/|\(kombu/|\(amqp/|\(futurist/"),
)

API: Stages = (
    ("ledger", r"\(tonnage/ledger/"),
    ("calls to the scheduler", r"\(tonnage/rpc/|\(oslo_messaging/|\(kombu/|\(amqp/"),
    ("policy", r"\(tonnage/api/policies\.py|\(oslo_policy/"),
    ("reading bodies", r"\(tonnage/api/(body|requests|fields|volume_bodies)\.py"),
    ("what is shown", r"\(tonnage/api/(views|answers|resources/\w+)\.py"),
    ("routes, errors and the rest of Falcon", r"\(falcon/|\(tonnage/api/"),
    ("middleware", r"\(webob/|\(oslo_middleware/"),
    ("HTTP", r"\(cheroot/"),
)


class Watch:
    """Looks at a process and its children for a while."""

    def __init__(self, pid: int, stages: Stages = SCHEDULER) -> None:
        """Raise :class:`~throughput_machine.NotHere` if py-spy is not installed."""
        program = shutil.which("py-spy", path=f"{pathlib.Path(sys.executable).parent}") or shutil.which("py-spy")
        if program is None:
            raise machine.NotHere("no py-spy on this machine; install the dependency group 'bench'")
        self._command = [program, "record", "--pid", str(pid), "--subprocesses", "--nonblocking"]
        self._stages = stages

    def look(self, seconds: int = 10) -> dict[str, float]:
        """Return the share of each stage, the largest first. Raises RuntimeError if nothing was seen."""
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
    """Return what a stack of py-spy's raw format belongs to."""
    for name, pattern in stages:
        if re.search(pattern, stack):
            return name
    return "else"
