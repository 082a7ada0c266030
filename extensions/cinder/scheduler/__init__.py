# SPDX-License-Identifier: Apache-2.0
"""``tonnage-cinder-scheduler``: manager and driver in Cinder, probes, poll; imports Cinder."""
