# SPDX-License-Identifier: Apache-2.0
"""The connection to a cluster's API server."""

import pathlib

import pytest

from tonnage.capacity import errors
from tonnage.extensions.kubernetes.cluster import api_connection


def test_an_invalid_kubeconfig_raises_a_configuration_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"option \[kubernetes\] kubeconfig = .*/nothing: "):
        api_connection.connect(str(tmp_path / "nothing"))
    with pytest.raises(
        errors.ConfigurationError, match=r"option \[kubernetes\] kubeconfig is not set, and this is no pod"
    ):
        api_connection.connect(None)
