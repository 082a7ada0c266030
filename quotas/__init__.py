# SPDX-License-Identifier: Apache-2.0
"""Limits, reservations and usage of projects."""
