# SPDX-License-Identifier: Apache-2.0
"""The series of claims on the storage of clusters in the page ``/metrics/ledger``."""

from sqlalchemy import orm

from tonnage.api.monitoring.exposition import Page, labels
from tonnage.api.monitoring.ledger_page import PageScope
from tonnage.extensions.kubernetes.ledger import claim_counts


class ClaimSeries:
    """The number and the sum of the claims on the capacity of each driver."""

    def __init__(self, max_pools: int) -> None:
        """``max_pools`` bounds series of pools, of which there are none here."""

    def add(self, page: Page, session: orm.Session, scope: PageScope) -> None:
        """Add the claims. Drivers of clusters belong to no backend."""
        if scope.backend is not None:
            return
        drivers = [(labels(driver=name), claims) for name, claims in claim_counts.by_driver(session).items()]
        page.add_gauge(
            "tonnage_csi_claims",
            "Claims on the capacity of a driver of clusters.",
            [(text, claims.number) for text, claims in drivers],
        )
        page.add_gauge(
            "tonnage_csi_claimed_bytes", "Sum of these claims.", [(text, claims.size) for text, claims in drivers]
        )
