# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

from tests.unit.agent import fakes
from tonnage.agent import audit_snapshot
from tonnage.drivers.base import StoredVolume
from tonnage.rpc.messages import AuditSnapshot


class Changing(fakes.GatedDriver):
    """Calls each of ``steps``, one after the other, when it has looked at the storage."""

    def __init__(self, *steps: Callable[[dict[str, float]], object]) -> None:
        super().__init__()
        self.volumes = {"a": 2.0, "b": 3.0}
        self._steps = list(steps)

    def enter(self, method: str, volume_id: str = "") -> None:
        super().enter(method, volume_id)
        if self._steps:
            self._steps.pop(0)(self.volumes)

    def list_volumes(self) -> list[StoredVolume]:
        volumes = [StoredVolume(id=id, pool="pool", size_gb=size) for id, size in self.volumes.items()]
        self.enter("list_volumes")
        return volumes


def stay(volumes: dict[str, float]) -> None:
    pass


def snapshot(*steps: Callable[[dict[str, float]], object], is_quiet: bool = True) -> AuditSnapshot:
    [snapshot] = audit_snapshot.take(Changing(*steps), lambda: is_quiet)[1]
    return snapshot


def test_without_one_snapshot_two_listings_show_the_volumes_that_were_there_all_the_time() -> None:
    same = snapshot()
    assert (same.figures["provisioned_capacity_gb"], same.least_gb, same.all_gb) == (5, 5, 5)
    for step in (
        lambda volumes: volumes.update(b=4.0),
        lambda volumes: volumes.update(c=1.0),
    ):
        assert snapshot(step).all_gb is None
        assert snapshot(stay, step).all_gb is None
    for step in (
        lambda volumes: volumes.pop("b"),
        lambda volumes: volumes.update(b=1.0),
        lambda volumes: volumes.update(b=4.0),
    ):
        assert snapshot(step).least_gb == snapshot(stay, step).least_gb == 2, "it may have been smaller in between"
    assert snapshot(lambda volumes: volumes.update(c=1.0)).least_gb == 5


def test_while_an_operation_is_under_way_it_may_be_more() -> None:
    assert (snapshot(is_quiet=False).least_gb, snapshot(is_quiet=False).all_gb) == (5, None)


def test_the_last_list_is_the_one_that_is_told() -> None:
    volumes, _ = audit_snapshot.take(Changing(lambda volumes: volumes.pop("a")), lambda: True)
    assert [volume.id for volume in volumes] == ["b"]


def test_a_driver_that_cannot_report_lists_all_the_same() -> None:
    driver = Changing()
    driver.failures["report"] = [fakes.TROUBLE]
    volumes, audit_snapshots = audit_snapshot.take(driver, lambda: True)
    assert [volume.id for volume in volumes] == ["a", "b"]
    assert audit_snapshots == []


def test_figures_that_are_not_plain_do_not_travel() -> None:
    driver = Changing()
    driver.storage = object()  # type: ignore[assignment]
    [snapshot] = audit_snapshot.take(driver, lambda: True)[1]
    assert set(snapshot.figures) == {"pool_name", "total_capacity_gb", "free_capacity_gb", "provisioned_capacity_gb"}
