# SPDX-License-Identifier: Apache-2.0
"""64 threads request more volumes than fit, over REST and RPC, with real files: the volumes that fit are placed."""

import contextlib
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import GIB, Deployment, run_concurrently
from tonnage.rpc import contract
from tonnage.rpc.clients.scheduler_client import SchedulerClient
from tonnage.rpc.messages import CreateVolume

THREADS = 64
BACKENDS: dict[str, dict[str, Any]] = {
    "thin1": {"filesystem_size_limit_gb": 3, "max_over_subscription_ratio": 3},
    "thin2": {"filesystem_size_limit_gb": 5, "max_over_subscription_ratio": 2},
    "thick1": {"filesystem_size_limit_gb": 2, "filesystem_provisioning": "thick"},
    "thick2": {"filesystem_size_limit_gb": 4, "filesystem_provisioning": "thick", "reserved_percentage": 50},
}
#: Volumes of 1 GiB that fit each pool: 3 * 3, 5 * 2, 2, 4 - 2.
CAPACITY = {"thin1": 9, "thin2": 10, "thick1": 2, "thick2": 2}

#: Requests a volume of a size and type, and returns the message of the refusal or None.
RequestVolume = Callable[[int, str], str | None]


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    with deploy(BACKENDS) as deployment:
        deployment.start()
        deployment.rest.create_type("thin", thin_provisioning_support="<is> True")
        deployment.rest.create_type("thick", provisioning__type="thick", thick_provisioning_support="<is> True")
        yield deployment


def over_rest(tonnage: Deployment) -> RequestVolume:
    def request(size: int, kind: str) -> str | None:
        answer = tonnage.rest.request_volume(size, kind)
        if answer.status_code == 202:
            return None
        assert answer.status_code == 409, answer.text
        return str(answer.json()["conflictingRequest"]["message"])

    return request


def over_rpc(scheduler: SchedulerClient) -> RequestVolume:
    def request(size: int, kind: str) -> str | None:
        volume_id = str(uuid.uuid4())
        answer = scheduler.call(
            contract.CREATE_VOLUME,
            CreateVolume(
                request_id=f"req-{volume_id}", volume_id=volume_id, size_gb=size, project_id="demo", volume_type=kind
            ),
        )
        return None if answer.refusal is None else answer.refusal.message

    return request


@contextlib.contextmanager
def interfaces(tonnage: Deployment) -> Iterator[list[RequestVolume]]:
    """The interfaces for requests: REST, and RPC if there is a message bus."""
    if not tonnage.distributed:
        yield [over_rest(tonnage)]
        return
    with tonnage.rpc() as scheduler:
        yield [over_rest(tonnage), over_rpc(scheduler)]


@contextlib.contextmanager
def deleting_volumes(tonnage: Deployment) -> Iterator[None]:
    """Delete all volumes afterwards; then all capacity must be free again."""
    tonnage.check_at_rest()
    yield
    tonnage.rest.delete(*[volume["id"] for volume in tonnage.rest.volumes()])
    tonnage.check_at_rest()
    for backend, capacity in CAPACITY.items():
        kind = backend.rstrip("12")
        assert tonnage.rest.headroom(tonnage.pool(backend), kind) == capacity


def check_exact_fill(tonnage: Deployment, fitting: int, fill_up: Callable[[], int]) -> None:
    """Assert that ``fill_up`` places ``fitting`` volumes concurrently, in one of three attempts, and never more.

    A creation that takes longer than a second counts twice in a report, so a concurrent request may be refused (see
    docs/ledger.rst). That is correct, but does not happen in each attempt.
    """
    for _ in range(3):
        with deleting_volumes(tonnage):
            placed = fill_up()
            if placed == fitting:
                return
    pytest.fail(f"{placed} of {fitting} volumes that fit are placed")


def top_up(tonnage: Deployment, request: RequestVolume, size: int, kind: str) -> int:
    """Request volumes one after another until a refusal, and return the number of volumes placed."""
    for more in range(THREADS):
        if (refusal := request(size, kind)) is not None:
            assert size > 1 or "headroom 0.00 GiB" in refusal
            return more
        tonnage.check_at_rest()
    pytest.fail(f"{THREADS} more volumes of {size} GiB are placed")


@pytest.mark.heavy  # several schedulers fill a pool exactly in test_torture
@on_one_database
def test_concurrent_requests_fill_all_pools_exactly(tonnage: Deployment) -> None:
    with interfaces(tonnage) as requests:
        for request in requests:
            check_exact_fill(tonnage, sum(CAPACITY.values()), lambda: _fill_up(tonnage, request))  # noqa: B023


def _fill_up(tonnage: Deployment, request: RequestVolume) -> int:
    answers = run_concurrently(THREADS, lambda number: request(1, "thick" if number % 2 else "thin"))
    tonnage.check_at_rest()
    placed = answers.count(None)
    assert placed + sum(top_up(tonnage, request, 1, kind) for kind in ("thin", "thick")) == sum(CAPACITY.values())
    assert {backend: len(tonnage.files(backend)) for backend in BACKENDS} == CAPACITY
    assert Counter(volume["status"] for volume in tonnage.rest.volumes()) == {"available": sum(CAPACITY.values())}
    for backend in ("thick1", "thick2"):
        assert all(file.st_blocks * 512 >= GIB for file in tonnage.files(backend).values())
    for answer in filter(None, answers):
        assert re.match(r"No pool for 1 GiB .*: 4 pools; .*CapacityFilter refused \d.*headroom ", answer)
        assert placed < sum(CAPACITY.values()) or "headroom 0.00 GiB" in answer
    return placed


@pytest.mark.heavy
@on_one_database
def test_concurrent_requests_leave_less_than_one_volume_free(tonnage: Deployment) -> None:
    with interfaces(tonnage) as requests:
        for request in requests:

            def fill_up() -> int:
                answers = run_concurrently(THREADS, lambda number: request(4, "thin"))  # noqa: B023
                tonnage.check_at_rest()
                top_up(tonnage, request, 4, "thin")  # noqa: B023
                assert [len(tonnage.files(backend)) for backend in ("thin1", "thin2")] == [2, 2]
                return answers.count(None)

            check_exact_fill(tonnage, 9 // 4 + 10 // 4, fill_up)
