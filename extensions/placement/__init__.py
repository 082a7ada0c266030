# SPDX-License-Identifier: Apache-2.0
"""Volumes as allocations in OpenStack Placement, and quotas that count usage from there."""
