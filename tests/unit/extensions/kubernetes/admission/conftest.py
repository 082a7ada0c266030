# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of admission: those of decisions and claims."""

from tests.unit.extensions.kubernetes.fit.conftest import cluster, kube, written  # noqa: F401
