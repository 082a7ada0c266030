# SPDX-License-Identifier: Apache-2.0
"""Tests with arbitrary bodies: the response is always JSON and never an internal error."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.api.any_input import check, encoded, often, text, values
from tests.unit.api.cluster import Client

name = st.sampled_from(["a", "b"]) | text
csi_pool = st.dictionaries(
    st.sampled_from(["name", "capacity", "nodeList", "nodeTopology", "expiryTime", "$patch", "backingId"]),
    name | values,
)
csi_storage = st.fixed_dictionaries({"storageClassName": name, "pools": st.lists(csi_pool, max_size=2) | values})
csi_driver = st.fixed_dictionaries(
    {"spec": st.fixed_dictionaries({"capacityTracking": st.booleans()}) | values},
    optional={"status": st.fixed_dictionaries({"storage": st.lists(csi_storage, max_size=2) | values}) | values},
)
csi_volume = st.fixed_dictionaries(
    {"name": name, "driver": name},
    optional={"size": st.sampled_from(["1Gi", "1e3"]) | values, "storageClassName": name},
)
fit = st.fixed_dictionaries(
    {
        "volumes": st.lists(csi_volume, max_size=3) | values,
        "nodes": st.lists(st.fixed_dictionaries({"name": name}), max_size=3) | values,
    },
    optional={"claim": st.fixed_dictionaries({"holder": name}) | values},
)


@often
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH"]),
    path=st.sampled_from(["csi-drivers/x", "csi-capacity/fit", "csi-capacity/claims/x"]),
    body=csi_driver | fit | values,
)
def test_arbitrary_bodies(client: Client, method: str, path: str, body: Any) -> None:
    headers = {"Content-Type": "application/json"}
    check(client.simulate_request(method, f"/v3/{path}", body=encoded(body), headers=headers))
