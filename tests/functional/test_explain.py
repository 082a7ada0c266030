# SPDX-License-Identifier: Apache-2.0
"""``tonnage explain`` finds a scheduler by the configuration alone and agrees with the real decision."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment, run_program
from tests.servers.base import wait_for

BACKENDS: dict[str, dict[str, Any]] = {
    "left": {"filesystem_size_limit_gb": 8, "max_over_subscription_ratio": 2.0},
    "thick": {"filesystem_size_limit_gb": 3, "filesystem_provisioning": "thick"},
}


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, decision_log="$state_path/decisions.jsonl") as deployment:
        yield deployment.start()


def run(tonnage: Deployment, *arguments: object, status: int = 0) -> Any:
    ended = run_program("tonnage", "--config-file", tonnage.conf, *map(str, arguments), "--json")
    assert ended.code == status, ended.output + ended.error
    assert "Traceback" not in ended.error
    return json.loads(ended.output) if ended.output else ended.error


#: All deployments show the same; the normal suite has the one with the most processes.
on_one_deployment = pytest.mark.parametrize(
    "deploy",
    [
        pytest.param("standalone", marks=pytest.mark.heavy),
        "postgresql",
        pytest.param("mariadb", marks=pytest.mark.heavy),
    ],
    indirect=True,
    scope="module",
)


@on_one_deployment
def test_explanations_agree_with_decisions(tonnage: Deployment) -> None:
    left, thick = tonnage.pool("left"), tonnage.pool("thick")
    tonnage.rest.create_type("gold", volume_backend_name="left")
    [explanation] = run(tonnage, "explain", 3, "--type", "gold")["explanations"]
    assert (explanation["request"], explanation["pool"]) == ("3 GiB 'gold'", left)
    volume = tonnage.rest.wait_until_available(tonnage.rest.create(3, "gold"))
    wait_for(lambda: tonnage.rest.pools()[left]["in_flight_capacity_gb"] == 0, "a report has the volume")
    [explanation] = run(tonnage, "explain", 30, "--extend", volume["id"], status=3)["explanations"]
    refusal = tonnage.rest.extend(volume["id"], 30)
    assert refusal.status_code == 409
    # Other processes use this disk as well, so its free space differs.
    decided = refusal.json()["conflictingRequest"]["message"].partition("shared room")[0]
    assert explanation["message"].partition("shared room")[0] == decided
    assert "has headroom 13.00 GiB (total 8" in decided
    played = run(tonnage, "what-if", 30, "--extend", volume["id"], "--ratio", f"{left}=9", "--lose", thick)["outlooks"]
    assert played[0]["volumes"][0]["pool"] == left
    assert played[0]["unchanged"][0]["refusal"]["request"] == explanation["request"]
    assert "could not be found" in run(tonnage, "explain", 1, "--type", "moon", status=1)
    told = run(tonnage, "replay", tonnage.folder / "decisions.jsonl", "--all")
    assert (told["decisions"], told["differ"]) == (2, 0)
    assert [each["recorded"]["pools"] for each in told["replayed"]] == [[left], []]
