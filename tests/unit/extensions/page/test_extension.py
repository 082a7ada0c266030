# SPDX-License-Identifier: Apache-2.0
"""The extension ``page`` alone: it needs no tables, no scheduler and no other extension."""

from falcon import testing

from tests.unit.api.cluster import Cluster, configuration
from tests.unit.extensions import alone
from tonnage import enabled_extensions, extension


def test_it_stores_nothing_and_no_scheduler_runs_a_part_of_it() -> None:
    assert alone.tables("page") == set()
    assert enabled_extensions.parts(configuration(enabled_extensions=["page"]), "scheduler") == {}


def test_the_page_is_at_its_declared_path_without_other_extensions(cluster: Cluster) -> None:
    path = extension.installed()["page"].web_page
    client = cluster.client(enabled_extensions=["page"])
    # The files of the page are no part of the OpenAPI document.
    page = testing.TestClient(client.app).simulate_get(path)
    assert (page.status_code, page.headers["Content-Type"].partition(";")[0]) == (200, "text/html")
    assert client.simulate_get("/v3/capacity-overview").status_code == 200


def test_it_has_one_rule() -> None:
    assert alone.rules("page") == {"capacity:overview"}
