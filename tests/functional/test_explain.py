# SPDX-License-Identifier: Apache-2.0
"""``tonnage`` finds a scheduler by the configuration alone, and what it explains is what is decided."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment, until
from tests.functional.standalone import COMMANDS

BACKENDS: dict[str, dict[str, Any]] = {
    "left": {"filesystem_size_limit_gb": 8, "max_over_subscription_ratio": 2.0},
    "thick": {"filesystem_size_limit_gb": 3, "filesystem_provisioning": "thick"},
}


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS, decision_log="$state_path/decisions.jsonl") as deployment:
        yield deployment.start()


def ask(tonnage: Deployment, *arguments: object, status: int = 0) -> Any:
    command = [COMMANDS / "tonnage", "--config-file", tonnage.conf, *map(str, arguments), "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    return json.loads(ended.stdout) if ended.stdout else ended.stderr


#: Each shows the whole; the suite has the one in which the parts are most apart.
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
def test_what_is_explained_is_what_is_decided(tonnage: Deployment) -> None:
    left, thick = tonnage.pool("left"), tonnage.pool("thick")
    tonnage.rest.new_type("gold", volume_backend_name="left")
    [explanation] = ask(tonnage, "explain", 3, "--type", "gold")["explanations"]
    assert (explanation["what"], explanation["pool"]) == ("3 GiB 'gold'", left)
    volume = tonnage.rest.made(tonnage.rest.create(3, "gold"))
    until(lambda: tonnage.rest.pools()[left]["in_flight_capacity_gb"] == 0, "a report has the volume")
    [explanation] = ask(tonnage, "explain", 30, "--extend", volume["id"], status=3)["explanations"]
    refusal = tonnage.rest.extend(volume["id"], 30)
    assert refusal.status_code == 409
    # Others use this disk as well, so what is left of it differs.
    decided = refusal.json()["conflictingRequest"]["message"].partition("shared room")[0]
    assert explanation["message"].partition("shared room")[0] == decided
    assert "has headroom 13.00 GiB (total 8" in decided
    played = ask(tonnage, "what-if", 30, "--extend", volume["id"], "--ratio", f"{left}=9", "--lose", thick)["outlooks"]
    assert played[0]["volumes"][0]["pool"] == left
    assert played[0]["unchanged"][0]["refusal"]["what"] == explanation["what"]
    assert "could not be found" in ask(tonnage, "explain", 1, "--type", "moon", status=1)
    told = ask(tonnage, "replay", tonnage.folder / "decisions.jsonl", "--all")
    assert (told["decisions"], told["differ"]) == (2, 0)
    assert [each["recorded"]["pools"] for each in told["replayed"]] == [[left], []]
