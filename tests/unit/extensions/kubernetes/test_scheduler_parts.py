# SPDX-License-Identifier: Apache-2.0
"""The part of the extension in a scheduler; tests/unit/extensions/kubernetes/api tests its answers over RPC."""

from types import SimpleNamespace

import pytest
from oslo_config import cfg

from tonnage.capacity import errors
from tonnage.extensions.kubernetes import scheduler_parts
from tonnage.extensions.kubernetes.fit.node_fit_messages import FIT_NODES, FitQuery, NodeVolume


def test_a_scheduler_answers_node_fit_queries() -> None:
    parts = scheduler_parts.build(cfg.ConfigOpts(), SimpleNamespace(database=None))  # type: ignore[arg-type]
    [handler] = parts.rpc_handlers
    assert handler.method is FIT_NODES
    volume = NodeVolume(name="v", driver="disk.example.com")
    with pytest.raises(errors.InvalidInput, match="'v' is named twice"):
        handler.handle(FitQuery(volumes=[volume, volume], nodes={}))
