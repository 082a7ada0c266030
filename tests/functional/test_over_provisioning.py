# SPDX-License-Identifier: Apache-2.0
"""The example of docs/over-provisioning-example.rst with real files: the two calculations choose different pools.

The requests use the message bus if there is one, otherwise REST.
"""

import json
import uuid
from typing import Any

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import GIB, Addresses, Deployment
from tests.servers.base import wait_for
from tonnage.rpc import contract
from tonnage.rpc.messages import CreateVolume

PAIR: dict[str, dict[str, Any]] = {
    "kept": {
        "volume_backend_name": "pair",
        "filesystem_size_limit_gb": 10,
        "reserved_percentage": 40,
        "max_over_subscription_ratio": 2,
    },
    "plain": {
        "volume_backend_name": "pair",
        "filesystem_size_limit_gb": 9,
        "max_over_subscription_ratio": 1.5,
    },
}
AUTO = {
    "filesystem_size_limit_gb": 4,
    "max_over_subscription_ratio": "auto",
    # A capability that the driver must not report.
    "extra_capabilities": '{"allocated_capacity_gb": 3}',
}


def place(tonnage: Deployment, size: int) -> str:
    """Request a volume and return its backend, or the message of the refusal."""
    if not tonnage.distributed:
        answer = tonnage.rest.request_volume(size, "pair")
        if answer.status_code == 409:
            return str(answer.json()["conflictingRequest"]["message"])
        pool = tonnage.rest.volume(answer.json()["volume"]["id"])["os-vol-host-attr:host"]
    else:
        volume_id = str(uuid.uuid4())
        with tonnage.rpc() as scheduler:
            decided = scheduler.call(
                contract.CREATE_VOLUME,
                CreateVolume(
                    request_id=f"req-{volume_id}",
                    volume_id=volume_id,
                    size_gb=size,
                    project_id="demo",
                    volume_type="pair",
                ),
            )
        if decided.refusal is not None:
            return decided.refusal.message
        pool = decided.pool
    return str(pool).rpartition("#")[2]


@on_one_database
@pytest.mark.parametrize(
    ("calculation", "chosen", "refusal"),
    [
        ("cinder", ["kept", "plain", "kept"], None),
        (
            "standard",
            ["plain", "kept"],
            "No pool for 8 GiB 'pair': 3 pools; CapabilitiesFilter refused 1; CapacityFilter refused 2, nearest "
            "{plain} has headroom 5.00 GiB (total 9, provisioned 8, in flight 0, reserved 0 %, ratio 1.5, standard)",
        ),
    ],
)
def test_the_calculations_place_the_same_requests_differently(
    deploy: Deploy, calculation: str, chosen: list[str], refusal: str | None
) -> None:
    with deploy({**PAIR, "auto": AUTO}, over_provisioning_calculation=calculation) as tonnage:
        tonnage.start()
        tonnage.rest.create_type("pair", volume_backend_name="pair")
        found = []
        for _ in range(3):
            found.append(place(tonnage, 8))
            tonnage.check_at_rest()
        assert found[: len(chosen)] == chosen
        if refusal is not None:
            assert found[-1] == refusal.format(plain=tonnage.pool("plain"))
        for backend in PAIR:
            sizes = [file.st_size for file in tonnage.files(backend).values()]
            assert sizes == [8 * GIB] * chosen.count(backend)
        check_auto(tonnage)
        check_audit(tonnage)


def check_auto(tonnage: Deployment) -> None:
    """Assert that the ratio ``auto`` follows the provisioned capacity."""
    rest, pool = tonnage.rest, tonnage.pool("auto")

    def ratio() -> tuple[float, str]:
        capabilities = rest.pools()[pool]
        return capabilities["max_over_subscription_ratio"], capabilities["max_over_subscription_ratio_source"]

    def inputs() -> dict[str, Any]:
        found: dict[str, Any] = rest.pools()[pool]["max_over_subscription_ratio_inputs"]
        return found

    assert ratio() == (20, "auto")
    assert inputs()["formula"] == "20 while nothing is provisioned"
    rest.wait_until_available(rest.create(5, rest.create_type("auto", volume_backend_name="auto")))
    wait_for(lambda: ratio() == (6, "auto"), "the ratio is 1 + 5 / (4 - 4 + 1)")
    assert tonnage.sql_value(f"SELECT ratio FROM pools WHERE name = '{pool}'") == 6
    assert inputs() == {
        "formula": "1 + 5 / (4 - 4 + 1)",
        "total_capacity_gb": 4,
        "free_capacity_gb": 4,
        "provisioned_capacity_gb": 5,
    }
    answer = rest.request("POST", "scheduler-stats/explain", {"volume": {"size": 1}})
    verdicts = {verdict["pool"]: verdict for verdict in answer.json()["explanation"]["verdicts"]}
    assert verdicts[tonnage.pool("kept")]["auto_ratio"] is None
    assert verdicts[pool]["auto_ratio"]["formula"] == "1 + 5 / (4 - 4 + 1)"


def check_audit(tonnage: Deployment) -> None:
    """Assert that the API, the audit command and one log line show the finding about a driver's report."""
    pool = tonnage.pool("auto")
    found = wait_for(lambda: tonnage.rest.pools()[pool].get("findings"), "the report has been audited")
    assert [finding["breach"] for finding in found] == ["no_allocated"]
    assert "findings" not in tonnage.rest.pools()[tonnage.pool("kept")]
    told = tonnage.run_command("manage", None, "driver", "audit", "--json")
    assert told.code == 3
    assert [(one["pool"], one["because"]) for one in json.loads(told.output)["findings"]] == [(pool, found[0]["text"])]
    assert tonnage.logs().count(f"Pool {pool}: its report breaks no_allocated") == 1


@pytest.mark.parametrize("program", ["agent", "standalone"])
def test_auto_is_refused_for_a_driver_that_does_not_support_it(program: str) -> None:
    with Deployment(
        Addresses(), {"ram": {"volume_driver": "memory", "max_over_subscription_ratio": "auto"}}
    ) as tonnage:
        ended = tonnage.run_command(program)
    assert ended.code != 0
    assert ended.error == (
        f"tonnage-{program}: [ram] max_over_subscription_ratio = auto: driver MemoryDriver of [ram] does not support "
        "it; set a number of at least 1 in [ram]\n"
    )
