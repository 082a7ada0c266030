# SPDX-License-Identifier: Apache-2.0
"""Periodic tasks."""
