# SPDX-License-Identifier: Apache-2.0
"""The extender for kube-scheduler."""
