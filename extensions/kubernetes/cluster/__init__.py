# SPDX-License-Identifier: Apache-2.0
"""The connection to a Kubernetes API server: nodes, pods, storage classes."""
