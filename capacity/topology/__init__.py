# SPDX-License-Identifier: Apache-2.0
"""Accessibility of pools, requirements of requests."""
