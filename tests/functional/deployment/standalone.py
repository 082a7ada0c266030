# SPDX-License-Identifier: Apache-2.0
"""``tonnage-standalone`` with two backends, for tests of its clients."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from tests.functional.deployment.configuration import Addresses, Options
from tests.functional.deployment.deployment import Deployment


def thin_and_thick(ratio: float = 2.0) -> dict[str, dict[str, Any]]:
    """Return a thin backend of 20 GiB with an over-subscription ratio, and a thick backend of 2 GiB."""
    return {
        "thin": {
            "filesystem_size_limit_gb": 20,
            "filesystem_provisioning": "thin",
            "max_over_subscription_ratio": ratio,
        },
        "thick": {"filesystem_size_limit_gb": 2, "filesystem_provisioning": "thick"},
    }


@contextlib.contextmanager
def standalone(backends: Mapping[str, Options] | None = None, **more: Any) -> Iterator[Deployment]:
    """Run ``tonnage-standalone`` on host ``box``. At the end it must stop cleanly.

    The backends are :func:`thin_and_thick` by default; ``more`` are arguments of :class:`Deployment`.
    """
    options = {"host": "box", "listing_interval": 2, **more}
    with Deployment(Addresses(), thin_and_thick() if backends is None else backends, **options) as deployment:
        yield deployment.start()
        assert deployment.stop() == {"standalone": 0}, deployment.logs()
