# SPDX-License-Identifier: Apache-2.0
"""Nodes with room for all volumes of a pod, claims for pods."""
