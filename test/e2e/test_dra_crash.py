# SPDX-License-Identifier: Apache-2.0
"""An agent that is killed while it prepares or unprepares a claim: the next one finishes it or undoes it, at whatever step it was."""
import concurrent.futures
import time

from cluster import cluster  # noqa: F401 -- a fixture
from dra import DRIVER, WHOLE, DraPod, node  # noqa: F401 -- a fixture
from dra_kubelet import Failed
from mps_node import H100
from test_dra import FIRST, start, start_agent, wait_no_daemon

SHARE = {'memory': '10Gi', 'threadPercentage': '30'}
MOMENTS = (0, 0.001, 0.003, 0.006, 0.01, 0.02, 0.03, 0.05, 0.1)  # seconds after kubelet's call


def come_back(node):
    node.gpus(1, model=H100)
    start_agent(node)
    node.dra.wait_driver(DRIVER)


def call_and_kill(node, call, wait):
    """kills the agent after |call| was made and |wait| has returned. What kubelet got: an error, None if it got an answer before."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(call)
        wait()
        node.agent.kill()
        return answer.exception()


def kill_while_the_daemon_starts(node):
    """A pod whose claim was allocated, and not answered."""
    start(node)
    node.gpus(1, 'daemon: slow 3000', model=H100)
    claim = node.claim('train', SHARE)
    pod = node.admit(claim)
    error = call_and_kill(node, lambda: node.prepare(pod, claim),
                          lambda: node.watch().wait_daemon(FIRST, lambda daemon: daemon['state'] != 'ready', 'starts'))
    assert isinstance(error, Failed)
    return pod, claim


def check_runs_and_ends(node, pod, claim):
    running = node.run_pod(pod, claim)
    client = running.client()
    assert client.connected()['percentage'] == '30.0'
    assert client.allocate(9000) == 9000 and client.allocate(1300) < 1300
    running.end()
    check_nothing_is_left(node)


def check_nothing_is_left(node):
    wait_no_daemon(node)
    assert not [device for device in node.cdi_devices() if device.startswith(DRIVER)]


def test_a_claim_that_a_killed_agent_was_reading_is_prepared_by_the_next(node):
    start(node)
    claim = node.claim('train', SHARE)
    pod = node.admit(claim)
    node.cluster.api.fault('hang', verb='get', resource='resourceclaims')
    error = call_and_kill(node, lambda: node.prepare(pod, claim),
                          lambda: node.cluster.api.wait_for(lambda: node.cluster.api.asked('get', 'resourceclaims')))
    assert isinstance(error, Failed)
    come_back(node)
    check_runs_and_ends(node, pod, claim)


def test_the_next_agent_answers_what_a_killed_one_did_not(node):
    pod, claim = kill_while_the_daemon_starts(node)
    come_back(node)
    check_runs_and_ends(node, pod, claim)


def test_a_claim_that_was_not_answered_is_taken_back_when_its_pod_goes(node):
    pod, claim = kill_while_the_daemon_starts(node)
    come_back(node)
    node.end(DraPod(node, pod, [claim], None, []))
    check_nothing_is_left(node)
    node.run(node.claim('whole', class_=WHOLE))


def test_a_share_is_the_same_at_whatever_moment_of_prepare_the_agent_is_killed(node):
    start(node)
    for i, moment in enumerate(MOMENTS):
        claim = node.claim('train-%d' % i, SHARE)
        pod = node.admit(claim)
        call_and_kill(node, lambda pod=pod, claim=claim: node.prepare(pod, claim), lambda moment=moment: time.sleep(moment))
        come_back(node)
        check_runs_and_ends(node, pod, claim)


def test_nothing_is_left_at_whatever_moment_of_unprepare_the_agent_is_killed(node):
    start(node)
    for i, moment in enumerate(MOMENTS):
        pod = node.run(node.claim('train-%d' % i, SHARE))
        call_and_kill(node, lambda pod=pod: node.dra.unprepare(pod.pod), lambda moment=moment: time.sleep(moment))
        come_back(node)
        pod.end()
        check_nothing_is_left(node)
