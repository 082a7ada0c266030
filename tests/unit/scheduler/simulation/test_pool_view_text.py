# SPDX-License-Identifier: Apache-2.0
"""What is kept of how pools were spelled is what would be spelled anew."""

import datetime
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pool_stats import PoolStats
from tonnage.capacity.pools.pool_table import Pool, PoolTable
from tonnage.rpc import serialization
from tonnage.rpc.clients.pool_list_text import PoolListReader
from tonnage.rpc.messages import PoolListQuery, PoolListText, PoolQuery
from tonnage.scheduler.simulation import pool_views
from tonnage.scheduler.simulation.pool_view_text import PoolListTextCache

A, B = "h@a", "h@b"
NAMES = (f"{A}#p0", f"{A}#p1", f"{B}#p0")
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)


@dataclass
class Scene:
    """Two backends, to be changed."""

    table: PoolTable = field(
        default_factory=lambda: PoolTable(
            Pool(name=name, total=100.0, free=50.0, thin=True, ratio=2.0) for name in NAMES
        )
    )
    stats: dict[str, PoolStats] = field(
        default_factory=lambda: {
            name: PoolStats(name[-2:], 100.0, 50.0, capabilities={"colour": "red"}) for name in NAMES
        }
    )
    heard: dict[str, tuple[datetime.datetime | None, float]] = field(
        default_factory=lambda: {A: (NOON, 1.0), B: (None, 2.0)}
    )
    draining: set[str] = field(default_factory=set)
    found: dict[str, dict[str, str]] = field(default_factory=dict)
    calculation: Calculation = Calculation.CINDER
    default_ratio: float | str = 20.0
    notices: dict[str, str] = field(default_factory=dict)

    def picture(self) -> pool_views.PoolsSnapshot:
        return pool_views.PoolsSnapshot(
            pools=self.table.snapshot(),
            calculation=self.calculation,
            stats=dict(self.stats),
            heard=dict(self.heard),
            draining=set(self.draining),
            findings=dict(self.found),
            default_ratio=self.default_ratio,
            notices=dict(self.notices),
        )

    def change(self, name: str, **changes: Any) -> None:
        pool = self.table.get(name)
        assert pool is not None
        self.table.put(replace(pool, **changes))

    def report(self, name: str, **changes: Any) -> None:
        self.stats[name] = self.stats[name]._replace(**changes)

    def forget(self, name: str) -> None:
        self.table.remove(name)
        del self.stats[name]

    def meet(self, name: str) -> None:
        self.table.put(Pool(name=name, total=7.0, free=7.0))
        self.stats[name] = PoolStats(name[-2:], 7.0, 7.0)


def spelled(answer: list[PoolListText]) -> list[PoolListText]:
    return serialization.unpack(json.loads(json.dumps(serialization.pack(answer))), list[PoolListText])


def read(answer: list[PoolListText]) -> Any:
    return json.loads(b"[%s]" % b",".join(PoolListReader().parts(spelled(answer))))


def as_shown(picture: pool_views.PoolsSnapshot, query: PoolQuery, *, factors: bool) -> Any:
    pools = msgspec.to_builtins(pool_views.selected(picture, query, None))
    if factors:
        return pools
    return [{"name": pool["name"], "capabilities": pool_views.as_in_cinder(pool["capabilities"])} for pool in pools]


def later(scene: Scene) -> None:
    scene.heard = {A: (NOON + datetime.timedelta(minutes=1), 0.5), B: (NOON, 60.0)}


CHANGES: list[tuple[Callable[[Scene], object], set[str]]] = [
    (lambda scene: None, set()),
    (later, set()),
    (lambda scene: scene.heard.update({NAMES[1]: (NOON, 90.0)}), {A, NAMES[1], B}),
    (lambda scene: scene.heard.update({NAMES[1]: (NOON, 91.0)}), set()),
    (lambda scene: scene.heard.pop(NAMES[1]), {A, B}),
    (lambda scene: scene.table.claim(0, 3.0, 3.0), {A}),
    (lambda scene: scene.change(NAMES[2], total=200.0, provisioned=float("nan")), {B}),
    (lambda scene: scene.change(NAMES[2], enabled=False), {B}),
    (lambda scene: scene.change(NAMES[0], up=False), {A}),
    (lambda scene: scene.change(NAMES[0], availability_zone="moon"), {A}),
    (lambda scene: scene.report(NAMES[1], capabilities={"colour": "blue", "timestamp": "mine", "updated": 1}), {A}),
    (lambda scene: scene.report(NAMES[2], capabilities={"colour": "\0\ud800"}), {B}),
    (lambda scene: scene.report(NAMES[2], capabilities={}), {B}),
    (lambda scene: scene.found.update({NAMES[2]: {"sum": "too much"}}), {B}),
    (lambda scene: scene.found.clear(), {B}),
    (lambda scene: scene.draining.add(A), {A}),
    (lambda scene: scene.draining.clear(), {A}),
    (lambda scene: scene.notices.update({A: "its agent stopped"}), {A}),
    (lambda scene: scene.notices.update({A: "its agent cannot report"}), {A}),
    (lambda scene: scene.notices.clear(), {A}),
    (lambda scene: setattr(scene, "calculation", Calculation.STANDARD), {A, B}),
    (lambda scene: setattr(scene, "default_ratio", "auto"), {A, B}),
    (lambda scene: scene.meet("h@a-b#p0"), {A, B, "h@a-b"}),
    (lambda scene: scene.forget(NAMES[0]), {A, B, "h@a-b"}),
    (lambda scene: scene.forget(NAMES[1]), {B, "h@a-b"}),
]


@pytest.mark.parametrize("factors", [False, True])
def test_after_each_change_what_is_kept_is_what_would_be_spelled_anew(factors: bool) -> None:
    scene, spelling, reader = Scene(), PoolListTextCache(), PoolListReader()
    query = PoolListQuery(detail=True, factors=factors)
    before: dict[str, str] = {}
    for number, (change, concerned) in enumerate(CHANGES):
        change(scene)
        picture = scene.picture()
        answer = spelling.selected(picture, query, None)
        found = json.loads(b"[%s]" % b",".join(reader.parts(spelled(answer))))
        assert found == read(PoolListTextCache().selected(picture, query, None)), number
        if "ud800" not in repr(scene.stats):  # which JSON cannot say
            assert found == as_shown(picture, PoolQuery(), factors=factors), number
        texts = dict(
            zip(
                sorted({pool_views.source(picture, name) for name in scene.stats}),
                (each.text for each in answer),
                strict=True,
            )
        )
        if number:
            assert {name for name in texts if texts[name] is not before.get(name)} == concerned, number
        before = texts


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (PoolListQuery(), list(NAMES)),
        (PoolListQuery(name=NAMES[1], detail=True), [NAMES[1]]),
        (PoolListQuery(name="elsewhere", detail=True), []),
        (PoolListQuery(capabilities={"colour": "RED"}, detail=True, factors=True), list(NAMES)),
        (PoolListQuery(capabilities={"colour": "blue"}), []),
    ],
)
def test_a_part_of_the_pools_or_of_what_is_known_of_them(query: PoolListQuery, names: list[str]) -> None:
    picture = Scene().picture()
    found = read(PoolListTextCache().selected(picture, query, None))
    assert [pool["name"] for pool in found] == names
    if query.detail:
        assert found == as_shown(picture, query, factors=query.factors)
    else:
        assert all(set(pool) == {"name"} for pool in found)
