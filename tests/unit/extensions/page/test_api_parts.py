# SPDX-License-Identifier: Apache-2.0
"""The routes and the files of the page, and the seconds for which users share a result."""

import pytest

from tests.unit.api.cluster import Cluster, parts
from tonnage.extensions.page import api_parts


def test_files_are_served_beside_the_api_and_are_no_part_of_its_document() -> None:
    [_, page] = parts("page")
    assert {path.split("/")[1] for path, _, _ in page.files} == {"page"}
    assert all(path.startswith("/capacity-overview") for path, _, _ in page.routes)
    assert page.unversioned_routes == ()


def test_users_share_an_overview_for_its_lifetime(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read 10,000 pools takes long, and each open page asks again and again."""
    assert api_parts.LIFETIMES.overview > 0
    monkeypatch.setattr(api_parts, "LIFETIMES", api_parts.Lifetimes(overview=3600.0))
    client = cluster.client(enabled_extensions=["page"])
    before = client.simulate_get("/v3/capacity-overview/pools").json
    client.wait_until_settled(client.create(1)["id"])
    assert client.simulate_get("/v3/capacity-overview/pools").json == before
    other = cluster.client(enabled_extensions=["page"])
    assert other.simulate_get("/v3/capacity-overview/pools").json != before
