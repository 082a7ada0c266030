# SPDX-License-Identifier: Apache-2.0
"""Plans as commands of ``openstack``: each is one that its parser takes."""

import json
import subprocess
import sys

from tests.unit.extensions.relocation.cloud_api import CLOUD, A, B
from tonnage.extensions.moves.planning.plan import MovePlan, PlannedMove, PoolLevel, StayingVolume
from tonnage.extensions.relocation import command_lines
from tonnage.extensions.relocation.plan_choices import Choices

LEVEL = PoolLevel(promised_gb=0, promise_limit_gb=None, used_gb=None, physical_limit_gb=None)


def move(number: int, volume_id: str, after: tuple[int, ...] = ()) -> PlannedMove:
    return PlannedMove(
        number=number,
        volume_id=volume_id,
        size_gb=4,
        source=A,
        target=B,
        reason="",
        after=after,
        source_level=LEVEL,
        target_level=LEVEL,
    )


PLAN = MovePlan(
    goal="empty h@a",
    is_reached=False,
    outcome="1 of 4 volumes with 2 GiB stay in h@a",
    moves=(move(1, "v1"), move(2, "v2", (1,)), move(3, "v3")),
    staying=(StayingVolume(volume_id="v4", size_gb=2, pool=A, reason="volume v4 has snapshots"),),
)


def lines(choices: Choices, new_types: dict[int, str], clusters: set[str], cloud: str | None) -> list[str]:
    return list(command_lines.lines(PLAN, choices, new_types, clusters, cloud))


def test_each_move_is_a_command_and_the_rest_is_commented() -> None:
    assert lines(Choices(cloud=CLOUD), {3: "silver"}, set(), "my cloud") == [
        "# To empty h@a: 3 moves of 12 GiB; 1 of 4 volumes with 2 GiB stay in h@a.",
        f"# 1: 4 GiB from {A} to {B}",
        f"openstack --os-cloud 'my cloud' volume migrate --host '{B}' --lock-volume v1",
        f"# Wait until the moves 1 have ended: they make room in {B}.",
        f"# 2: 4 GiB from {A} to {B}",
        f"openstack --os-cloud 'my cloud' volume migrate --host '{B}' --lock-volume v2",
        f"# 3: 4 GiB from {A} to {B}",
        "openstack --os-cloud 'my cloud' volume set --type silver --retype-policy on-demand v3",
        f"# Volume v4 of 2 GiB stays in {A}: volume v4 has snapshots",
    ]


#: Prints the arguments of commands of ``openstack``, without a warning of its libraries.
_PARSE = """
import json, shlex, sys
from openstackclient.volume.v3 import volume

for line in sys.stdin:
    words = shlex.split(line, comments=True)
    if words:
        command = {"migrate": volume.MigrateVolume, "set": volume.SetVolume}[words[2]]
        print(json.dumps(vars(command(None, None).get_parser("openstack").parse_args(words[3:]))))
"""


def test_the_parsers_of_openstack_take_the_commands() -> None:
    script = "\n".join(lines(Choices(cloud=CLOUD), {3: "silver"}, {B}, None))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _PARSE], input=script, stdout=subprocess.PIPE, text=True, check=True
    )
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert (first["volume"], first["cluster"], first["lock_volume"]) == ("v1", B, True)
    assert (second["volume"], third["volume"], third["type"]) == ("v2", "v3", "silver")
