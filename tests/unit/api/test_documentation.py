# SPDX-License-Identifier: Apache-2.0
"""The pages about the API say what it does."""

import json
import pathlib
import re

import pytest

from tests.unit.api.cluster import configuration
from tonnage.api import app
from tonnage.api.resources.base import Tools
from tonnage.capacity import factors
from tonnage.capacity.arithmetic import Calculation
from tonnage.capacity.pools import Pool

DOCS = pathlib.Path(__file__).parents[3] / "docs"


def test_every_route_is_described() -> None:
    page = (DOCS / "api.rst").read_text()
    routes = app.routes(configuration(), Tools(*[None] * 5))  # type: ignore[arg-type]
    assert not [path for path, _, _ in routes if f"``{path}``" not in page]


@pytest.mark.parametrize("name", factors.CapacityFactors._fields)
def test_every_factor_is_described(name: str) -> None:
    assert f"``{name}``" in (DOCS / "capacity-factors.rst").read_text()


def test_the_example_is_what_comes_out() -> None:
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
    found = factors.capacity_factors(pool, Calculation.CINDER)
    assert [one._asdict() for one in found] == [json.loads(block[1])]
