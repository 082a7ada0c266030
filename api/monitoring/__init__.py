# SPDX-License-Identifier: Apache-2.0
"""The listener for Prometheus."""
