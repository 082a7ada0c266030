# SPDX-License-Identifier: Apache-2.0
"""The storage of Kubernetes clusters: capacity, extender, publisher, claims of pods.

Floors from the ground up: cluster and ledger, options, capacity, fit, admission and provisioner, api and extender and
publication, daemons.
"""
