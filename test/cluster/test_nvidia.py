# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's device plugin, whose image is replaced by ours under running pods, and back (docs/migration.md). The DaemonSet is the one of NVIDIA's
own static manifest; it reads simulated GPUs, from our image."""
import pytest
import yaml

from churn import Churn
from pods import NAMESPACE
from warpshare import counts

SHARES = {'nvidia.com/gpu': 16}
NAME = 'nvidia-device-plugin-daemonset'
CONFIG = 'version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - {name: nvidia.com/gpu, replicas: 4}\n'
GPUS = 'driverVersion: 580.105.08\ncudaVersion: "13.0"\ngpus:\n- {model: V100-32GB, count: 4}\n'
PLUGIN = '''
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: nvidia-device-plugin-daemonset, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {name: nvidia-device-plugin-ds}}
  updateStrategy: {type: RollingUpdate}
  template:
    metadata: {labels: {name: nvidia-device-plugin-ds}}
    spec:
      priorityClassName: system-node-critical
      nodeSelector: {kubernetes.io/hostname: HOST}
      tolerations: [{key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}]
      initContainers:
      - name: gpus
        image: OURS
        command: [sh, -c, cp /usr/lib/warpshare/libwarpshare-nvml-sim.so /gpus/libnvidia-ml.so.1]
        volumeMounts: [{name: gpus, mountPath: /gpus}]
      containers:
      - name: nvidia-device-plugin-ctr
        image: THEIRS
        env:
        - {name: CONFIG_FILE, value: /config/config.yaml}
        - {name: LD_LIBRARY_PATH, value: /gpus}
        - {name: WARPSHARE_SIM_SCENARIO, value: /config/gpus.yaml}
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts:
        - {name: kubelet-device-plugins-dir, mountPath: /var/lib/kubelet/device-plugins}
        - {name: gpus, mountPath: /gpus}
        - {name: config, mountPath: /config}
      volumes:
      - {name: kubelet-device-plugins-dir, hostPath: {path: /var/lib/kubelet/device-plugins, type: Directory}}
      - {name: gpus, emptyDir: {}}
      - {name: config, configMap: {name: plugin}}
'''


@pytest.fixture(scope='module', name='plugin')
def make_plugin(told, kube, node, pods):  # pylint: disable=unused-argument
    """Replaces the plugin's image, and waits until its pod runs."""
    if not told.nvidia_image:
        pytest.skip("WARPSHARE_CLUSTER_NVIDIA_IMAGE names no image of NVIDIA's device plugin")
    path = f'/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets'
    kube.request('POST', f'/api/v1/namespaces/{NAMESPACE}/configmaps', {
        'apiVersion': 'v1', 'kind': 'ConfigMap', 'metadata': {'name': 'plugin'}, 'data': {'config.yaml': CONFIG, 'gpus.yaml': GPUS}})
    host = kube.get(f'/api/v1/nodes/{node}')['metadata']['labels']['kubernetes.io/hostname']
    kube.request('POST', path, yaml.safe_load(PLUGIN.replace('NAMESPACE', NAMESPACE).replace('HOST', host).replace('OURS', told.image)
                                              .replace('THEIRS', told.nvidia_image)))

    def replace(image):
        kube.kubectl('-n', NAMESPACE, 'set', 'image', f'daemonset/{NAME}', f'nvidia-device-plugin-ctr={image}')
        kube.kubectl('-n', NAMESPACE, 'rollout', 'status', f'daemonset/{NAME}', f'--timeout={told.timeout}s')
        kube.wait('kubelet counts the shares', lambda: counts(kube.get(f'/api/v1/nodes/{node}')) == SHARES)

    yield replace
    kube.kubectl('-n', NAMESPACE, 'delete', 'daemonset', NAME, f'--timeout={told.timeout}s')
    kube.kubectl('-n', NAMESPACE, 'delete', 'configmap', 'plugin')
    kube.wait('no share is offered', lambda: not counts(kube.get(f'/api/v1/nodes/{node}')))


def test_nvidias_plugin_is_replaced_under_running_pods_and_comes_back(plugin, pods, told, note):
    plugin(told.nvidia_image)
    unit = {name: pods.run(name, {'nvidia.com/gpu': 1})['NVIDIA_VISIBLE_DEVICES'] for name in ('early', 'late')}
    containers = {name: pods.get(name)['status']['containerStatuses'][0]['containerID'] for name in unit}
    for image in (told.image, told.nvidia_image):
        with Churn(pods, {'nvidia.com/gpu': 1}) as churn:
            churn.wait_ran(2)
            plugin(image)
            churn.wait_ran(2)
        note(f'to {image}: {churn.tally}')
        assert not churn.tally.failed, churn.tally.reasons
        for name, container in containers.items():
            status = pods.get(name)['status']
            assert status['phase'] == 'Running' and status['containerStatuses'][0]['containerID'] == container


def test_what_was_granted_before_is_not_granted_again(plugin, pods, told):
    plugin(told.nvidia_image)
    units = [pods.run(f'share-{number}', {'nvidia.com/gpu': 1})['NVIDIA_VISIBLE_DEVICES'] for number in range(8)]
    plugin(told.image)
    units += [pods.run(f'share-{number}', {'nvidia.com/gpu': 1})['NVIDIA_VISIBLE_DEVICES'] for number in range(8, 16)]
    assert sorted(units.count(one) for one in set(units)) == [4, 4, 4, 4]
