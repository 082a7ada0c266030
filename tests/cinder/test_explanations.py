# SPDX-License-Identifier: Apache-2.0
"""``tonnage why`` explains a request of Cinder pool by pool."""

from collections.abc import Iterator

import pytest

from tests.cinder import sites
from tests.cinder.operations import action
from tests.cinder.sites import Site
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for

B1, B2, B3 = (f"real@b{number}#a" for number in (1, 2, 3))


@pytest.fixture(scope="module")
def site(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> Iterator[Site]:
    """Three backends, and a filter of another project that refuses the third."""
    names = "CapabilitiesFilter,CapacityFilter,MaintenanceFilter"
    more = {"scheduler_default_filters": names, "scheduler_max_attempts": "2"}
    shape = Shape(backends=["b1", "b2", "b3"], pools=["a"], more=more)
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape) as found:
        yield found


def kind(site: Site, name: str, spec: str) -> str:
    """Return a volume type whose backend must match an extra spec."""
    cinder = site.cinder
    made = cinder.request("POST", "/types", {"volume_type": {"name": name}})["volume_type"]["id"]
    specs = {"extra_specs": {"volume_backend_name": spec}}
    cinder.request("POST", f"/types/{made}/extra_specs", specs)
    return str(made)


def test_a_refusal_is_explained_pool_by_pool(site: Site) -> None:
    cinder = site.cinder
    filling = cinder.create(80, volume_type=kind(site, "second", "b2"))
    cinder.settled([filling])
    site.settled(B2, 80)
    refused = cinder.create(30, volume_type=kind(site, "not-first", "<or> b2 <or> b3"))
    assert cinder.settled([refused])[refused]["status"] == "error"

    why = site.explained(refused)
    assert why["pool_now"] is None
    assert {each["pool"]: (each["verdict"], each["because"]) for each in why["pools"]} == {
        B1: ("refused", "CapabilitiesFilter: reports volume_backend_name 'b1', which has to be '<or> b2 <or> b3'"),
        B2: (
            "refused",
            "CapacityFilter: has headroom 20.00 GiB (needed 30, total 100, free 100, provisioned 80 with 0 in flight, "
            "reserved 0 %, ratio 1)",
        ),
        B3: ("refused", "MaintenanceFilter: is refused"),
    }
    assert [each["pool"] for each in why["pools"]] == [B3, B2, B1]
    table = site.why_text(refused, "--rows", "1")
    assert "The same request now: 3" in table
    assert B3 in table
    assert "2 more: --rows 0 shows all" in table

    cinder.request("DELETE", f"/volumes/{filling}")
    wait_for(lambda: site.figures(B2) == (0, 0), "the volume is gone")
    why = site.explained(refused)
    assert (why["pool_now"], why["decision_now"]) == (B2, f"30 GiB 'not-first' goes to {B2}, the best of 1 candidate")
    [chosen] = [each for each in why["pools"] if each["verdict"] == "chosen"]
    assert chosen["weights"].keys() == {"CapacityWeigher"}


def test_a_refused_extend_is_explained(site: Site) -> None:
    cinder = site.cinder
    volume_id = cinder.create(10)
    assert cinder.settled([volume_id])[volume_id]["status"] == "available"
    host = cinder.volumes()[volume_id]["os-vol-host-attr:host"]
    site.settled(host, 10)
    action(cinder, volume_id, "os-extend", {"new_size": 200})
    wait_for(lambda: site.why(volume_id)["refusals"], "the refusal is recorded")
    [pool] = site.explained(volume_id)["pools"]
    assert (pool["pool"], pool["headroom_bytes"]) == (host, 90 * 2**30)
    assert pool["because"].startswith("CapacityFilter: has headroom 90.00 GiB (needed 190, ")


def test_a_request_that_was_not_refused_is_not_asked(site: Site) -> None:
    volume_id = site.cinder.create(1)
    site.cinder.settled([volume_id])
    assert "of Cinder's requests the ledger has only those whose pools a scheduler refused" in site.why_text(volume_id)


def test_a_volume_that_fails_in_all_pools_has_a_reason(site: Site) -> None:
    cinder = site.cinder
    for backend in ("b1", "b2"):
        cinder.control(backend, fail=True)
    volume_id = cinder.create(5)
    wait_for(lambda: site.why(volume_id)["refusals"], "the refusal is recorded")
    assert cinder.settled([volume_id])[volume_id]["status"] == "error"
    for backend in ("b1", "b2"):
        cinder.control(backend)
    [refused] = site.why(volume_id)["refusals"]
    assert refused["code"] == "attempts_exceeded"
    message = (
        "No pool for 5 GiB '__DEFAULT__': it has failed in {}, {}, in the last one with "
        "cinder.exception.VolumeBackendAPIException: Bad or unexpected response from the storage volume backend API: "
        "ordered to fail; no more pools are tried"
    )
    assert refused["message"] in (message.format(B1, B2), message.format(B2, B1))


def test_a_backend_that_cinder_does_not_use_is_down_in_the_ledger(site: Site) -> None:
    """Cinder 29.0.0 does not disable a service when it is told to, so the backend is frozen."""
    problem = "SELECT notice, notice_text FROM backends WHERE name = 'real@b3'"
    assert site.rows(problem) == [(None, None)]
    site.cinder.request("PUT", "/os-services/freeze", {"host": "real@b3"})
    down = ("down", "its service in Cinder is frozen")
    wait_for(lambda: site.rows(problem) == [down], "the backend is down")
    site.cinder.request("PUT", "/os-services/thaw", {"host": "real@b3"})
    wait_for(lambda: site.rows(problem) == [(None, None)], "the backend is up")


#: Cinder's own filter fails for this operator without a value.
FAILING = "<or>"


def test_a_filter_that_fails_for_a_new_volume_is_named(site: Site) -> None:
    cinder = site.cinder
    refused = cinder.create(1, volume_type=kind(site, "failing", FAILING))
    assert cinder.settled([refused])[refused]["status"] == "error"
    [refusal] = site.why(refused)["refusals"]
    assert "CapabilitiesFilter refused 3, nearest real@b" in refusal["message"]
    assert "could not be judged, CapabilitiesFilter failed (IndexError: pop from empty list)" in refusal["message"]
    because = {pool["because"] for pool in site.explained(refused)["pools"]}
    assert because == {
        "CapabilitiesFilter: could not be judged, CapabilitiesFilter failed (IndexError: pop from empty list)"
    }


@pytest.mark.parametrize("policy", ["never", "on-demand"])
def test_a_filter_that_fails_leaves_a_volume_as_it_was(site: Site, policy: str) -> None:
    """Cinder's own scheduler leaves it in ``retyping``."""
    cinder = site.cinder
    volume_id = cinder.create(1)
    assert cinder.settled([volume_id])[volume_id]["status"] == "available"
    new_type = kind(site, f"failing-{policy}", FAILING)
    action(cinder, volume_id, "os-retype", {"new_type": new_type, "migration_policy": policy})
    [refusal] = wait_for(lambda: site.why(volume_id)["refusals"], "the refusal is recorded")
    assert "CapabilitiesFilter failed (IndexError" in refusal["message"]
    wait_for(lambda: cinder.volumes()[volume_id]["status"] == "available", "the volume is as before")
