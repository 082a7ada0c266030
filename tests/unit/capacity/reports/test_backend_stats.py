# SPDX-License-Identifier: Apache-2.0
"""The stats of backends, in each form in which Cinder's drivers send them."""

import itertools
import json
import math
import pathlib
from typing import Any

import pytest

from tonnage.capacity.reports import backend_stats, validation

_HERE = pathlib.Path(__file__).parent
_SURVEY: dict[str, dict[str, list[str]]] = json.loads((_HERE / "cinder_drivers.json").read_text())["drivers"]

#: The values that stand for a form, for each field: tools/survey_cinder_drivers.py explains the forms.
_COMPUTED: dict[str, tuple[Any, ...]] = {
    "total_capacity_gb": (1000.256,),
    "free_capacity_gb": (400, -0.5, 2000),
    "provisioned_capacity_gb": (700.0,),
    "reserved_percentage": (7,),
    "max_over_subscription_ratio": (20.0, "20.0", "auto"),
    "thin_provisioning_support": (True, False),
    "thick_provisioning_support": (True, False),
}
_OPTIONS: dict[str, tuple[Any, ...]] = {
    **_COMPUTED,
    "max_over_subscription_ratio": ("20.0", "auto"),
    "thin_provisioning_support": (True, "True"),
}
_MISSING = object()


def _values(field: str, form: str) -> tuple[Any, ...]:
    if form == "missing":
        return (_MISSING,)
    known = {"computed": _COMPUTED, "option": _OPTIONS}.get(form)
    return (json.loads(form),) if known is None else known[field]


@pytest.mark.parametrize("driver", _SURVEY)
def test_each_form_of_each_driver_is_taken(driver: str) -> None:
    forms = dict(_SURVEY[driver])
    has_pools = forms.pop("pools") == ["list"]
    choices = [[value for form in forms[field] for value in _values(field, form)] for field in forms]
    for values in itertools.product(*choices):
        fields = {key: value for key, value in zip(forms, values, strict=True) if value is not _MISSING}
        backend = {"volume_backend_name": "array", "storage_protocol": "iSCSI", "filter_function": None}
        pools = [{"pool_name": "p1", **fields}, {"pool_name": "p2", **fields}]
        report = backend | ({"pools": pools} if has_pools else fields)
        checked = validation.validate(report)
        assert checked.errors == ()
        assert [pool.name for pool in checked.pools] == (["p1", "p2"] if has_pools else ["array"])
        assert all(pool.capabilities["storage_protocol"] == "iSCSI" for pool in checked.pools)


def test_the_survey_has_the_drivers() -> None:
    assert len(_SURVEY) == 63
    assert sum(forms["provisioned_capacity_gb"] == ["missing"] for forms in _SURVEY.values()) == 36


def test_a_backend_without_pools_is_its_own_pool() -> None:
    stats = {"volume_backend_name": "rbd1", "total_capacity_gb": 10, "free_capacity_gb": "unknown", "pools": None}
    (pool,) = validation.validate(stats).pools
    assert (pool.name, pool.total, math.isnan(pool.free)) == ("rbd1", 10, True)
    assert validation.validate({"total_capacity_gb": 1, "free_capacity_gb": 1}).pools[0].name == "_pool0"


def test_an_empty_list_of_pools_is_no_pool() -> None:
    assert validation.validate({"volume_backend_name": "rbd1", "total_capacity_gb": 1, "pools": []}).pools == ()


def test_pools_inherit_from_their_backend() -> None:
    backend = {"volume_backend_name": "array", "vendor_name": "Example", "filter_function": "volume.size < 5"}
    pools = [{"pool_name": 3, "vendor_name": "Other"}, {"pool_name": "b", "filter_function": None}]
    first, second = backend_stats.pools_of(backend | {"pools": pools})
    assert first == {
        "pool_name": "3",
        "volume_backend_name": "array",
        "vendor_name": "Other",
        "filter_function": "volume.size < 5",
    }
    assert second["filter_function"] is None, "a null function is none"


@pytest.mark.parametrize("report", [[{"pool_name": "a"}], None, "pools", 5])
def test_other_reports_stay_as_they_are(report: object) -> None:
    assert backend_stats.pools_of(report) is report


def test_the_reports_of_a_real_cinder_volume_are_taken_whole() -> None:
    """``cinder_messages.jsonl`` has messages as they came from Cinder's bus, with other folders in one traceback."""
    reports = []
    for line in (_HERE / "cinder_messages.jsonl").read_text().splitlines():
        message = json.loads(json.loads(line)["body"]["oslo.message"])
        if "capabilities" in message["args"]:
            reports.append(message["args"]["capabilities"])
    assert len(reports) >= 8
    for stats in reports:
        checked = validation.validate(stats)
        assert checked.errors == ()
        assert [pool.name for pool in checked.pools] == ["a", "b"]
        assert [pool.ratio for pool in checked.pools] == [1.0, 1.0], "it comes as a text"
        assert {remark.code for remark in checked.remarks} == {"allocated_reported", "text_max_over_subscription_ratio"}
