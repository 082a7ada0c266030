# SPDX-License-Identifier: Apache-2.0
"""Volumes, volume types, groups, QoS specs, user messages."""
