# SPDX-License-Identifier: Apache-2.0
"""Sample configurations, systemd units, and rules and a board for Prometheus and Grafana."""
