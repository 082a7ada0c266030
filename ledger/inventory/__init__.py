# SPDX-License-Identifier: Apache-2.0
"""Reported data: backends, reports, listings."""
