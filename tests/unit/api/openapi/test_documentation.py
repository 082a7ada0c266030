# SPDX-License-Identifier: Apache-2.0
"""Tests that the documentation and the OpenAPI document describe the whole API."""

import json
import pathlib
import re

import pytest

from tests.unit.api.cluster import parts
from tonnage import extension
from tonnage.api import app
from tonnage.api.http.annotations import Route
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools import capacity_factors
from tonnage.capacity.pools.pool_table import Pool

DOCS = pathlib.Path(__file__).parents[4] / "docs"


INSTALLED = sorted(extension.installed())


def routes(*names: str) -> list[Route]:
    """Return the routes of the core and of the named extensions."""
    return app.documented_routes(parts(*names))


def test_every_route_is_documented() -> None:
    page = (DOCS / "api.rst").read_text()
    assert not [path for path, _, _ in routes(*INSTALLED) if f"``{path.removeprefix('/v3') or path}``" not in page]


@pytest.mark.parametrize("name", capacity_factors.CapacityFactors._fields)
def test_every_capacity_factor_is_documented(name: str) -> None:
    assert f"``{name}``" in (DOCS / "capacity-factors.rst").read_text()


def test_the_documented_example_matches_the_result() -> None:
    page = (DOCS / "capacity-factors.rst").read_text()
    block = re.search(r"code-block:: json\n\n(.*?\n   \}\n)", page, re.DOTALL)
    assert block is not None
    pool = Pool(
        name="h@b#p",
        total=5120.0,
        free=4616.0,
        provisioned=500.0,
        allocated=500.0,
        reserved_percentage=20.0,
        thick=True,
    )
    found = capacity_factors.capacity_factors(pool, Calculation.CINDER)
    assert [one._asdict() for one in found] == [json.loads(block[1])]
