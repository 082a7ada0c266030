# SPDX-License-Identifier: Apache-2.0
"""Processes with the extension ``kubernetes`` alone."""

import pathlib

from tests.unit.api.cluster import configuration
from tests.unit.extensions import alone
from tests.unit.scheduler.conftest import ledger  # noqa: F401
from tonnage import enabled_extensions
from tonnage.extensions.kubernetes.fit.node_fit_messages import FIT_NODES, FitQuery
from tonnage.ledger.db.database import Database


def test_a_ledger_has_the_tables_of_clusters() -> None:
    assert alone.tables("kubernetes") == {"csi_drivers", "csi_storages", "csi_pools", "csi_claims", "csi_claim_ends"}


def test_a_scheduler_answers_queries_for_nodes_and_starts_nothing(tmp_path: pathlib.Path, ledger: Database) -> None:  # noqa: F811
    with alone.scheduler(alone.conf_of(tmp_path, "kubernetes"), ledger) as parts:
        [handler] = parts.rpc_handlers
        assert handler.method is FIT_NODES
        assert parts.background == parts.preparations == []
        answer = handler.handle(FitQuery(volumes=[], nodes={"n1": {}}))
        assert answer.nodes.keys() == {"n1"}


def test_the_api_serves_drivers_and_queries() -> None:
    assert alone.paths("kubernetes") == {
        "/csi-drivers",
        "/csi-drivers/{driver}",
        "/csi-capacity/fit",
        "/csi-capacity/claims/{holder}",
    }


def test_the_extender_listens_only_if_it_is_told_to() -> None:
    [build] = enabled_extensions.parts(configuration(enabled_extensions=["kubernetes"]), "listener").values()
    assert build(configuration(enabled_extensions=["kubernetes"]), None) is None
