# SPDX-License-Identifier: Apache-2.0
"""Bookings, the end of claims, deletions, keys of repeated requests."""
