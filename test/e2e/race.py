# SPDX-License-Identifier: Apache-2.0
"""Two registrations under one name.

Kubelets up to 1.36 know a plugin by its resource name alone: when an old stream ends, they disconnect whatever has the name
by then. However the agent comes to register again, in the end its devices have to be allocatable, and stay so.
"""
import time

import pytest

from node import GPU, SANITIZED, sharing

# As long as it may take until everything is settled, and as long as it is then looked at.
SETTLED = 30.0 if SANITIZED else 10.0
STEADY = 2.0

KUBELETS = pytest.mark.parametrize('keyed_by, cleanup_delay', [
    ('name', 0.0), ('name', 0.05), ('name', 0.5), ('path', 0.0)],
    ids=['up to 1.36', 'up to 1.36, 50 ms late', 'up to 1.36, 500 ms late', 'later than 1.36'])


def start(node, keyed_by, cleanup_delay):
    node.kubelet.keyed_by = keyed_by
    node.kubelet.cleanup_delay = cleanup_delay
    node.start_all(sharing('mps', 20))
    node.wait_counts(80)


def settles(node, resource=GPU, count=80):
    begun = time.monotonic()
    while True:
        node.wait_counts(count, resource=resource, timeout=SETTLED)
        if not node.kubelet.wait(lambda: node.kubelet.allocatable(resource) != count, STEADY):
            break
        assert time.monotonic() - begun < SETTLED + STEADY, 'never settled\n%s\n%s' % (node.counts(), node.logs())
    assert node.kubelet.capacity(resource) == count
    assert node.kubelet.admit('pod', resource, 1)
