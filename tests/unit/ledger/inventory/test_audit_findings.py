# SPDX-License-Identifier: Apache-2.0
"""Stored findings of the audit of drivers: a row is there for as long as the breach is."""

from collections.abc import Mapping

import pytest

from tests.unit.ledger.records import Records
from tonnage.ledger.inventory import audit_findings
from tonnage.ledger.inventory.audit_findings import Evidence, FindingChanges, Key

FREE, VOLUMES = ("p", "free"), ("p", "volumes")


@pytest.fixture
def backend(records: Records) -> int:
    return records.backend("host@b")


def store(records: Records, backend: int, findings: Mapping[Key, Evidence], *judged: Key) -> FindingChanges:
    return records.run(audit_findings.store, backend, findings, judged.__contains__)


def stored(records: Records, backend: str | None = None) -> dict[Key, Evidence]:
    return {finding.key: finding.evidence for finding in records.run(audit_findings.load, backend)}


def test_a_certain_breach_is_new_once_and_keeps_its_text(records: Records, backend: int) -> None:
    assert store(records, backend, {FREE: Evidence("first")}) == FindingChanges([FREE], [])
    assert store(records, backend, {FREE: Evidence("second")}) == FindingChanges([], [])
    assert stored(records) == {FREE: Evidence("first")}


def test_a_breach_of_one_listing_is_new_when_another_confirms_it(records: Records, backend: int) -> None:
    assert store(records, backend, {VOLUMES: Evidence("once", 4)}) == FindingChanges([], [])
    assert stored(records) == {VOLUMES: Evidence("once", 4)}
    assert store(records, backend, {VOLUMES: Evidence("again")}) == FindingChanges([VOLUMES], [])
    assert stored(records) == {VOLUMES: Evidence("again")}


def test_only_judged_breaches_end(records: Records, backend: int) -> None:
    store(records, backend, {FREE: Evidence("a"), VOLUMES: Evidence("b")})
    assert store(records, backend, {}, VOLUMES) == FindingChanges([], [VOLUMES])
    assert stored(records) == {FREE: Evidence("a")}


def test_an_uncertain_breach_ends_without_a_word(records: Records, backend: int) -> None:
    store(records, backend, {VOLUMES: Evidence("once", 4)})
    assert store(records, backend, {}, VOLUMES) == FindingChanges([], [])
    assert stored(records) == {}


def test_findings_are_loaded_for_one_backend_or_for_all_in_order(records: Records, backend: int) -> None:
    store(records, records.backend("host@a"), {("z", "free"): Evidence("other")})
    store(records, backend, {VOLUMES: Evidence("b"), FREE: Evidence("a")})
    names = [(finding.backend, *finding.key) for finding in records.run(audit_findings.load)]
    assert names == [("host@a", "z", "free"), ("host@b", *FREE), ("host@b", *VOLUMES)]
    assert stored(records, "host@a") == {("z", "free"): Evidence("other")}


def test_the_version_changes_with_the_findings(records: Records, backend: int) -> None:
    versions = [records.run(audit_findings.version)]
    for findings in ({FREE: Evidence("a")}, {VOLUMES: Evidence("b")}):
        store(records, backend, findings, FREE)
        versions.append(records.run(audit_findings.version))
        assert records.run(audit_findings.version) == versions[-1]
    assert len(set(versions)) == 3


def test_a_long_text_and_the_name_of_a_pool_are_made_to_fit(records: Records, backend: int) -> None:
    store(records, backend, {FREE: Evidence("x" * 2000)})
    assert len(stored(records)[FREE].text) == 1000
    assert audit_findings.stored_name("p" * 300) == "p" * 255
    assert audit_findings.stored_name("p  ") == "p  "
    assert audit_findings.stored_name("p\n") == "'p\\n'"


@pytest.mark.parametrize(
    ("provisioned", "values", "doubtful"),
    [
        (30.0, {}, False),
        (30.01, {}, False),
        (29.9, {}, True),
        (30.1, {}, True),
        (None, {}, False),
        (29.9, {"present": False}, False),
        # Something is in flight: the figures may contain it or not.
        (30.1, {"in_flight_gb": 5}, False),
        (25.0, {"in_flight_gb": 5}, False),
        (24.9, {"in_flight_gb": 5}, True),
        # The figures have the volumes of the other pools on the storage, and perhaps those of other systems.
        (45.0, {"storage_id": "array", "shared_allocated_gb": 10}, False),
        (39.9, {"storage_id": "array", "shared_allocated_gb": 10}, True),
    ],
)
def test_figures_that_differ_from_the_claims_are_doubtful(
    records: Records, provisioned: float | None, values: dict[str, object], doubtful: bool
) -> None:
    pool = {"allocated_capacity_gb": 20, "external_gb": 10.0, "provisioned_capacity_gb": provisioned}
    records.pool("host@b#p", **(pool | values))
    backend = records.backend("host@b")
    assert records.run(audit_findings.doubtful, [backend]) == ({backend} if doubtful else set())
    assert records.run(audit_findings.doubtful, []) == set()
