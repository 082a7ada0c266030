# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers that are not enabled by default, from the configuration to the answers of the API."""

from collections.abc import Iterator

import pytest

from tests.functional.deployment import Addresses, Deployment
from tests.servers import openstack
from tests.servers.openstack import Cloud

BACKENDS = {
    "fast": {
        "filesystem_size_limit_gb": 10,
        "max_over_subscription_ratio": 20.0,
        "extra_capabilities": '{"media": "ssd"}',
        "filter_function": "volume.size < 5 and stats.total_capacity_gb >= 10",
        "goodness_function": "volume.size < 3 ? 90 : 10",
    },
    "plain": {
        "filesystem_size_limit_gb": 8,
        "max_over_subscription_ratio": 20.0,
        "goodness_function": "50",
    },
    "wrong": {
        "filesystem_size_limit_gb": 4,
        "max_over_subscription_ratio": 20.0,
        "filter_function": "volume.size <",
        "goodness_function": "500",
    },
}

INSTANCE = "5d1b3d74-5c0f-4c6b-9d2c-3a1b8f0e7c11"

#: The project of the requests.
PROJECT = "demo"


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with Cloud() as cloud:
        yield cloud


@pytest.fixture(scope="module")
def tonnage(cloud: Cloud) -> Iterator[Deployment]:
    with Deployment(
        Addresses(),
        BACKENDS,
        {f"OS_NOVA__{name.upper()}": value for name, value in {**cloud.options, "timeout": "60"}.items()},
        rpc_response_timeout=90,
        scheduler_default_filters="RetryFilter, InstanceLocalityFilter, FreeSpaceFilter, JsonFilter, DriverFilter",
        # Goodness decides; the number of volumes decides between pools of the same goodness.
        scheduler_default_weighers="GoodnessWeigher, VolumeNumberWeigher",
        volume_number_multiplier=-0.01,
        scheduler_weight_handler="cinder.scheduler.weights.OrderedHostWeightHandler",
    ) as deployment:
        yield deployment.start()


def _place(tonnage: Deployment, size: int, **hints: str) -> str:
    """Request a volume and return its pool, or the message of the refusal."""
    rest = tonnage.rest
    answer = rest.request("POST", "volumes", {"volume": {"size": size}, "OS-SCH-HNT:scheduler_hints": hints})
    if answer.status_code == 409:
        return str(answer.json()["conflictingRequest"]["message"])
    assert answer.status_code == 202, answer.text
    return str(rest.wait_until_available(answer.json()["volume"]["id"])["os-vol-host-attr:host"])


def test_goodness_decides_and_a_wrong_function_excludes_its_pool(tonnage: Deployment) -> None:
    assert [_place(tonnage, size) for size in (2, 4, 6)] == [tonnage.pool(name) for name in ("fast", "plain", "plain")]


def test_the_query_hint_selects_the_pool(tonnage: Deployment) -> None:
    assert _place(tonnage, 4, query='["=", "$capabilities.media", "ssd"]') == tonnage.pool("fast")


def test_refusals_name_the_values_that_filters_compared(tonnage: Deployment) -> None:
    fast, wrong = tonnage.pool("fast"), tonnage.pool("wrong")
    query = f'["=", "$backend_id", "{fast}"]'
    assert _place(tonnage, 5, query=query) == (
        f"No pool for 5 GiB: 3 pools; JsonFilter refused 2; DriverFilter refused 1, nearest {fast} has the "
        "filter_function 'volume.size < 5 and stats.total_capacity_gb >= 10', which does not hold (volume.size is 5, "
        "stats.total_capacity_gb is 10)"
    )
    query = f'["=", "$backend_id", "{wrong}"]'
    assert _place(tonnage, 1, query=query) == (
        f"No pool for 1 GiB: 3 pools; JsonFilter refused 2; DriverFilter refused 1, nearest {wrong} has the "
        "filter_function 'volume.size <', which ends where something is missing"
    )
    query = '[">", "$total_capacity_gb", 100]'
    assert _place(tonnage, 1, query=query) == (
        f"No pool for 1 GiB: 3 pools; JsonFilter refused 3, nearest {fast} does not match the hint query "
        '[">", "$total_capacity_gb", 100] ($total_capacity_gb is 10.0)'
    )


def test_a_volume_is_placed_on_the_host_of_its_instance(tonnage: Deployment, cloud: Cloud) -> None:
    plain = tonnage.pool("plain")
    host = plain.partition("@")[0]
    refused = f"No pool for 6 GiB: 3 pools; InstanceLocalityFilter refused 3, nearest {plain} "
    assert _place(tonnage, 6, local_to_instance=INSTANCE) == (
        f"{refused}cannot be chosen by the hint local_to_instance: Nova knows no instance {INSTANCE}"
    )
    missing = _place(tonnage, 6, local_to_instance=INSTANCE)
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, host, "another")
    assert _place(tonnage, 6, local_to_instance=INSTANCE) == missing
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, "elsewhere", PROJECT)
    assert _place(tonnage, 6, local_to_instance=INSTANCE) == (
        f"{refused}is on host {host}; instance {INSTANCE}, which the hint local_to_instance names, runs on another"
    )
    cloud.answers[INSTANCE] = openstack.shown(INSTANCE, host, PROJECT)
    assert _place(tonnage, 6, local_to_instance=INSTANCE) == plain
