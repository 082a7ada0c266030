# SPDX-License-Identifier: Apache-2.0
"""Admission of the nodes that volumes are made for."""
