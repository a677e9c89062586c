# SPDX-License-Identifier: Apache-2.0
"""Each function of NVML that reads or changes MIG devices, on a GPU on which it never returns or ends the process: claims of other GPUs are prepared
meanwhile, and its own when it works again."""
import concurrent.futures
import re

import pytest

from cluster import cluster  # noqa: F401 -- a fixture
from dra import node  # noqa: F401 -- a fixture
from dra_kubelet import Failed
from mps import wait
from mps_node import uuid_of
from nvml_functions import OF_A_GPU, crash, hang
from test_dra import taints
from test_dra_mig import claim, set_gpus, start, there

FUNCTIONS = [name for name in OF_A_GPU if re.search('Instance|Mig|Handle|UUID|Attributes|MemoryInfo', name)]
AT_ONCE = 8  # GPUs, each with another function; one more is well


def prepare_or_fail(node, pod, wanted):
    """What the pod's event would say; empty: it has its devices."""
    try:
        node.prepare(pod, wanted)
    except Failed as failed:
        return str(failed)
    return ''


def wait_well(node, n_gpus):
    """Every GPU can be had whole, and none is tainted."""
    devices = {'gpu-%d-mig-7g-80gb-at-0' % i for i in range(n_gpus)}
    node.cluster.api.wait_for(lambda: devices <= node.devices().keys() and not any(taints(node, device) for device in devices))


@pytest.mark.parametrize('fault, says', [(hang, 'does not return'), (crash, 'has ended in')], ids=['endless', 'deadly'])
def test_whatever_function_hangs_or_crashes_the_claims_of_other_gpus_are_prepared(node, fault, says):
    n_gpus = AT_ONCE + 1
    start(node, n_gpus)
    to_blame = set()
    for first in range(0, len(FUNCTIONS), AT_ONCE):
        functions = FUNCTIONS[first:first + AT_ONCE]
        wait_well(node, n_gpus)
        claims = [claim(node, 'claim-%d' % (first + i), '7g.80gb') for i in range(n_gpus)]
        pods = [node.admit(one) for one in claims]
        on_gpu = {node.device_of(one).split('-mig-')[0]: (pod, one) for pod, one in zip(pods, claims)}
        healthy = on_gpu.pop('gpu-%d' % AT_ONCE)
        set_gpus(node, n_gpus, each=[fault(function) for function in functions])
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            answers = {function: pool.submit(prepare_or_fail, node, *on_gpu['gpu-%d' % i]) for i, function in enumerate(functions)}
            running = node.run_pod(*healthy)
        to_blame |= {function for function, answer in answers.items() if function in answer.result() and says in answer.result()}
        set_gpus(node, n_gpus)
        for pod, wanted in on_gpu.values():
            # A GPU that hung again and again is asked after a pause that doubles; kubelet tries again, too.
            wait(lambda pod=pod, wanted=wanted: not prepare_or_fail(node, pod, wanted), 'the claim is prepared', timeout=120)
            node.run_pod(pod, wanted).end()
        running.end()
        assert all(there(node, uuid_of(i)) == set() for i in range(n_gpus))
    assert to_blame >= {'nvmlDeviceCreateGpuInstanceWithPlacement', 'nvmlGpuInstanceCreateComputeInstance', 'nvmlDeviceGetHandleByUUID'}, to_blame
