# SPDX-License-Identifier: Apache-2.0
"""Steps of tests with volumes over REST, and the pools that they are in."""

import uuid
from typing import Any

import sqlalchemy as sa

from tests.unit.api.cluster import BACKEND, OWN_KEYS, Client, Cluster
from tonnage.ledger import models

THIN, THICK = f"{BACKEND}#thin", f"{BACKEND}#thick"


def act(client: Client, volume_id: str, action: str, **arguments: Any) -> Any:
    return client.at("POST", f"/v3/volumes/{volume_id}/action", OWN_KEYS, json={action: arguments})


def ready(client: Client, size: int = 1, **fields: Any) -> Any:
    """Return a volume that is available."""
    volume = client.wait_until_settled(client.create(size, **fields)["id"])
    assert volume["status"] == "available", volume
    return volume


def new_type(client: Client, **specs: str) -> str:
    name = f"t-{uuid.uuid4()}"
    answer = client.simulate_post("/v3/types", json={"volume_type": {"name": name, "extra_specs": specs}})
    assert answer.status_code == 200, answer.text
    return name


def fault(answer: Any, status: int) -> str:
    """Return the message of an error response."""
    assert answer.status_code == status, answer.text
    (body,) = answer.json.values()
    assert body["code"] == status
    return str(body["message"])


def allocated(cluster: Cluster, pool: str) -> int:
    with cluster.database.reading() as session:
        found = session.scalar(sa.select(models.Pool.allocated_capacity_gb).where(models.Pool.name == pool))
    assert found is not None
    return found
