# SPDX-License-Identifier: Apache-2.0
"""A call into NVML that does not return, played by the delays of the simulated one (docs/simulator.md). Programs of MPS: test_nvml_hangs_mps.py."""
import os
import re

from cluster import cluster  # noqa: F401 -- a fixture
from node import GPU, fast, sharing, v100s
from test_agent_metrics import value
from test_labels import discover, labels_file, read, wait_label  # noqa: F401 -- a fixture

FOR_EVER = '600s'
# From the begin of a call to the report of it, and then some.
PATIENCE = 60.0
# Every call waits, as for a lock of the driver.
BLOCKED = {'nvmlSystemGetDriverVersion': {'time': FOR_EVER, 'blocks': True}}


def unhealthy_gpus(node):
    return {device.split('::')[0] for device in node.kubelet.ids(GPU, healthy=False)}


def uuids(node):
    return [gpu['uuid'] for gpu in node.agent.page()['gpus']]


def test_a_gpu_that_hangs_is_named_and_the_others_still_report(node, cluster):
    config = sharing('timeSlicing', 5)
    node.environment.update(fast())
    kubelet = node.start_all(config, '--metrics-address=127.0.0.1:0', *cluster.options())
    node.wait_counts(20)
    gpus = v100s()
    gpus[1]['delays'] = {'nvmlDeviceGetMemoryInfo': FOR_EVER}
    node.scenario(gpus)
    node.agent.reload()
    hung = uuids(node)[1]
    # The Xid comes while a process is inside the call that hangs.
    gpus[3]['lost'] = True
    node.scenario(gpus, events=[{'gpu': 3, 'xid': 79}])
    node.agent.wait_problem(r'^nvmlDeviceGetMemoryInfo of GPU 1 \(%s\) has not returned for ' % hung, timeout=PATIENCE)
    node.wait_counts(10, 20)
    assert unhealthy_gpus(node) == {hung, uuids(node)[3]}
    node.agent.wait_event('GPUUnhealthy', '%s.* nvmlDeviceGetMemoryInfo does not return' % hung)
    node.agent.wait_event('GPUUnhealthy', '%s.* Xid 79' % uuids(node)[3])
    event = cluster.wait_event('NVMLCallHangs')
    assert event['type'] == 'Warning'
    assert re.fullmatch(r'nvmlDeviceGetMemoryInfo of GPU 1 \(%s\) has not returned for \d\d s: '
                        'this GPU is unhealthy until it answers, and asked again from time to time; the others go on' % hung, event['message'])
    assert node.agent.get('/livez')[0] == 200
    text = node.agent.get('/metrics')[1]
    assert value(text, 'warpshare_nvml_call_hanging_seconds', call='nvmlDeviceGetMemoryInfo', gpu=hung) >= 10
    # What is new meanwhile reaches kubelet, with what is known of each GPU.
    node.config(sharing('timeSlicing', 8))
    node.agent.hang_up()
    node.wait_counts(16, 32)
    assert unhealthy_gpus(node) == {hung, uuids(node)[3]}
    events = [{'gpu': 3, 'xid': 79}, {'gpu': 2, 'xid': 95}]
    node.scenario(gpus, events=events)
    node.wait(lambda: uuids(node)[2] in unhealthy_gpus(node), 'the GPU with Xid 95 is unhealthy')
    # It is back when the call has returned.
    del gpus[1]['delays']
    node.scenario(gpus, events=events)
    node.agent.wait_event('GPUHealthy', hung)
    node.wait(lambda: node.agent.problem() == '', 'all is well again')
    assert len(kubelet.registered) == 1
    event = cluster.wait_event('NVMLCallReturned')
    assert event['type'] == 'Normal'
    assert re.fullmatch(r'nvmlDeviceGetMemoryInfo of GPU 1 \(%s\) has returned after \d\d s' % hung, event['message'])
    assert len(cluster.events('NVMLCallHangs')) == len(cluster.events('NVMLCallReturned')) == 1


def test_an_xid_that_comes_before_the_library_is_opened_again_is_reported(node):
    gpus = v100s()
    for gpu in gpus:  # only readings of what is used call it: one after the other keeps the thread from hearing anything
        gpu['delays'] = {'nvmlDeviceGetPowerUsage': '2s'}
    node.scenario(gpus)
    node.start_all(sharing('timeSlicing', 5), '--metrics-address=127.0.0.1:0', '--usage-interval=1s')
    node.wait_counts(20)
    node.agent.reload()
    events = [{'gpu': 3, 'xid': 79}]
    node.scenario(gpus, events=events)
    node.agent.wait_event('GPUUnhealthy', 'GPU 3 .*Xid 79')
    node.wait_counts(15, 20)
    node.scenario(v100s(), events=events)  # and the thread can end within the time that the agent gives it


def test_while_all_of_nvml_hangs_known_gpus_stay_and_can_be_shared_differently(node, cluster):
    node.scenario(v100s(), init={'delay': FOR_EVER})
    node.environment.update(fast())
    node.config(sharing('timeSlicing', 5))
    node.kubelet.start()
    node.start('--metrics-address=127.0.0.1:0', '--fail-on-init-error=true', *cluster.options())
    node.agent.wait_problem('nvmlInit.* has not returned for', timeout=PATIENCE)
    assert node.agent.get('/livez')[0] == 200
    assert cluster.wait_event('NVMLCallHangs')['message'].endswith(
        ' s: until the driver answers, the last known health of each GPU stays')
    gpus = v100s()
    gpus[3]['lost'] = True
    node.scenario(v100s())
    node.wait_counts(20)
    assert cluster.wait_event('NVMLCallReturned')['message'].startswith('nvmlInit_v2 has returned after ')
    node.scenario(gpus, events=[{'gpu': 3, 'xid': 79}])
    node.wait_counts(15, 20)
    assert node.agent.problem() == ''
    lost = unhealthy_gpus(node)
    node.scenario(gpus, events=[{'gpu': 3, 'xid': 79}], delays=BLOCKED)
    node.config(sharing('timeSlicing', 8))
    node.agent.hang_up()
    node.agent.wait_problem('nvmlSystemGetDriverVersion has not returned for', timeout=PATIENCE)
    node.wait_counts(24, 32, timeout=PATIENCE)
    assert unhealthy_gpus(node) == lost
    assert node.agent.get('/livez')[0] == 200
    assert node.agent.stop() == 0


# ---- gpu-feature-discovery ----

def test_labels_follow_the_configuration_while_a_gpu_hangs(node, labels_file):
    node.config(sharing('timeSlicing', 4))
    agent = discover(node, '--use-node-feature-api=false', '--output', labels_file, GFD_CONFIG_FILE=node.config_path, **fast())
    wait_label(node, labels_file, 'nvidia.com/gpu.replicas', '4')
    before = read(labels_file)
    gpus = v100s()
    gpus[1]['delays'] = {'nvmlDeviceGetMemoryInfo': FOR_EVER}
    node.scenario(gpus)
    agent.hang_up()
    which = ' event="%s" call="nvmlDeviceGetMemoryInfo" gpu="GPU-'
    agent.wait_log('"a call into NVML does not return"' + which % 'NVMLCallHangs', timeout=PATIENCE)
    node.config(sharing('timeSlicing', 8))
    wait_label(node, labels_file, 'nvidia.com/gpu.replicas', '8')
    assert {key: value for key, value in read(labels_file).items() if value != before.get(key)}.keys() <= {
        'nvidia.com/gpu.replicas', 'nvidia.com/gfd.timestamp', 'warpshare.dev/gpu.most'}
    node.scenario(v100s())
    agent.wait_log('"the call into NVML has returned"' + which % 'NVMLCallReturned')
    node.config(sharing('timeSlicing', 6))
    wait_label(node, labels_file, 'nvidia.com/gpu.replicas', '6')


def test_discovery_waits_for_an_nvml_that_does_not_begin_and_ends_while_it_hangs(node, labels_file):
    node.scenario(v100s(), init={'delay': FOR_EVER})
    agent = discover(node, '--use-node-feature-api=false', '--output', labels_file, '--fail-on-init-error=true', **fast())
    agent.wait_log('"a call into NVML does not return" .*call="nvmlInit', timeout=PATIENCE)
    assert not os.path.exists(labels_file)
    node.scenario(v100s())
    wait_label(node, labels_file, 'nvidia.com/gpu.count', '4')
    node.scenario(v100s(), delays=BLOCKED)
    agent.hang_up()
    agent.wait_log('"a call into NVML does not return" .*call="nvmlSystemGetDriverVersion"', timeout=PATIENCE)
    assert agent.stop() == 0
    assert not os.path.exists(labels_file)
