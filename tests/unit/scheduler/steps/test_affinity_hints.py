# SPDX-License-Identifier: Apache-2.0
"""Hints that name volumes become the backends of those volumes, or a wait for them."""

from typing import Any

import pytest

from tonnage.capacity.request import Request
from tonnage.ledger import models
from tonnage.rpc.messages import CreateVolume
from tonnage.scheduler.requests.request_spec import Lookup, RequestSpec, WaitsForVolume
from tonnage.scheduler.steps.affinity_hints import AffinityHints

STEP = AffinityHints()
SPEC = RequestSpec(request=Request(request_id="r", size_gb=1, project_id="demo"), volume_id="new", target_size_gb=1)


def volume(volume_id: str, pool: str | None = None, **values: Any) -> models.Volume:
    """Return the row of a volume; without a pool it waits for one."""
    fields = {"project_id": "demo", "status": "creating" if pool is None else "available", "hints": {}} | values
    row = models.Volume(id=volume_id, pool_id=None if pool is None else len(pool), **fields)
    row.pool = None if pool is None else models.Pool(id=len(pool), name=pool)
    return row


def lookup(*volumes: models.Volume) -> Lookup:
    return Lookup({}, {row.id: row for row in volumes})


def message(**hints: Any) -> CreateVolume:
    return CreateVolume(request_id="r", volume_id="new", size_gb=1, project_id="demo", hints=hints)


def test_hints_name_volumes_by_one_id_or_a_list() -> None:
    hints = {"same_host": "a", "different_host": ["b", "c", 5], "query": "d"}
    assert STEP.volume_ids(message(**hints)) == ["a", "b", "c"]


def test_a_request_without_such_hints_stays_as_it_is() -> None:
    assert STEP.refine(SPEC, message(query="x"), lookup()) == SPEC


def test_named_volumes_become_their_backends() -> None:
    volumes = lookup(volume("a", "host@b#p"), volume("b", "host@c#p"), volume("c", "host@d#p"))
    request = STEP.refine(SPEC, message(same_host=["a", "b"], different_host="c"), volumes).request
    assert request.same_backends == {"host@b", "host@c"}
    assert request.different_backends == {"host@d"}


def test_an_absent_hint_sets_no_backends() -> None:
    request = STEP.refine(SPEC, message(different_host="a"), lookup(volume("a", "host@b#p"))).request
    assert (request.same_backends, request.different_backends) == (None, {"host@b"})


def test_volumes_without_a_pool_of_others_and_unknown_ones_have_no_backend() -> None:
    volumes = lookup(volume("waiting"), volume("foreign", "host@b#p", project_id="other"))
    request = STEP.refine(SPEC, message(same_host=["waiting", "foreign", "unknown"]), volumes).request
    assert request.same_backends == frozenset()


def test_a_volume_that_is_tried_again_remembers_where_the_named_ones_are() -> None:
    retried = volume("new", hints={"same_host": ["a"], "different_host": ["b"]})
    being_made = volume("b", "host@c#pool", status="creating")
    spec = STEP.refine(SPEC, retried, lookup(retried, volume("a", "host@b#p"), being_made))
    assert spec.request.same_backends == {"host@b"}
    assert spec.hint_targets == {"a": len("host@b#p"), "b": len("host@c#pool")}
    assert spec.waits_for == "b"


def test_a_volume_that_is_tried_again_waits_for_one_without_a_pool() -> None:
    retried = volume("new", hints={"different_host": "a"})
    with pytest.raises(WaitsForVolume, match="volume new waits until volume a has a pool"):
        STEP.refine(SPEC, retried, lookup(retried, volume("a")))


def test_of_volumes_that_name_each_other_the_first_goes_anywhere_and_the_other_waits() -> None:
    first, second = volume("a", hints={"same_host": "b"}), volume("b", hints={"same_host": "a"})
    spec = STEP.refine(SPEC, first, lookup(first, second))
    assert (spec.request.same_backends, spec.hint_targets) == (None, {"b": None})
    with pytest.raises(WaitsForVolume, match="until volume a has a pool"):
        STEP.refine(SPEC, second, lookup(first, second))
