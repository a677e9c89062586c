# SPDX-License-Identifier: Apache-2.0
"""A node as the GPU Operator sets it up, with our image as its devicePlugin and gfd image: the containers' commands, environment,
mounts and configuration managers. Only where the simulation is comes from us.
"""
import os
import shutil
import stat
import sys

import yaml

from image import ROOTFS, SOURCE, Pod

sys.path.insert(0, os.path.join(SOURCE, 'test', 'e2e'))

import kubelet as kubelet_module  # noqa: E402
from apiserver import ApiServer  # noqa: E402
from node import DEADLINE, GPU  # noqa: E402

LIBRARIES = '/usr/lib/%s' % next(name for name in os.listdir(os.path.join(ROOTFS, 'usr/lib')) if name.endswith('-linux-gnu'))
LABEL = 'nvidia.com/device-plugin.config'
UUIDS = ['GPU-%d1111111-2222-3333-4444-555555555555' % i for i in range(2)]

# What the operator's entrypoint scripts do, in the words of the shell that its versions use. Each waits for the driver, takes over what its
# validation found, and becomes the plugin.
ENTRYPOINT = r'''#!/bin/sh
until [ -f /run/nvidia/validations/driver-ready ]; do
        sleep 0.2
done
set -o allexport
. /run/nvidia/validations/driver-ready
if lsmod 2>/dev/null | grep -q '^gdrdrv '; then echo GDRCOPY_ENABLED=true; fi >feature-flags.env
if lsmod 2>/dev/null | grep -q '^nvidia_fs '; then printf 'GDS_ENABLED=true\nMOFED_ENABLED=true\n'; fi >>feature-flags.env
. ./feature-flags.env
exec nvidia-device-plugin
'''
# Without modules: v25.10 to v26.3.2.
WITHOUT_MODULES = r'''#!/bin/sh
until [ -f /run/nvidia/validations/driver-ready ]
do
        sleep 0.2
done
set -o allexport
cat /run/nvidia/validations/driver-ready
. /run/nvidia/validations/driver-ready
exec nvidia-device-plugin
'''
# By bash, from v24.6 to v25.3.
BY_BASH = WITHOUT_MODULES.replace('/bin/sh', '/bin/bash').replace('[ -f', '[[ -f').replace('-ready ]', '-ready ]]')
# v23.9 and v24.3: two files may say that the driver is ready, neither has variables in it.
TWO_FILES = r'''#!/bin/bash
root="" here=""
while true; do
        if [[ -f /run/nvidia/validations/host-driver-ready ]]; then
                root=/
                here=/host
                break
        elif [[ -f /run/nvidia/validations/driver-ready ]]; then
                root=/run/nvidia/driver
                here=$root
                break
        else
                sleep 0.2
        fi
done
export NVIDIA_DRIVER_ROOT=$root
export CONTAINER_DRIVER_ROOT=$here
exec nvidia-device-plugin
'''
# The init container that feature discovery has in v24.9, from the image of gfd; the script is an argument of the shell.
COPY_NODES = r'''
until [[ -f /run/nvidia/validations/driver-ready ]]
do
        sleep 0.2
done
set -o allexport
. /run/nvidia/validations/driver-ready
FILE=/etc/nvidia-imex/nodes_config.cfg
if [[ -f /config/${FILE} ]]; then
        rm -f /config/${FILE}
fi
if [[ ! -f ${DRIVER_ROOT_CTR_PATH}/${FILE} ]]; then
        echo none
        exit 0
fi
mkdir -p $(dirname /config/${FILE})
cp ${DRIVER_ROOT_CTR_PATH}/${FILE} /config/${FILE}
'''


class OperatorNode(Pod):
    def __init__(self):
        super().__init__()
        for name in ('plugins', 'validations', 'driver', 'cdi', 'mps', 'account', 'features.d', 'config', 'configs', 'simulation'):
            os.makedirs(self.at(name))
        self.kubelet = kubelet_module.Kubelet(self.at('plugins'))
        self.kubelet.start()
        self.api = ApiServer(self.at('api'), namespace='gpu-operator')
        self.api.put('/api/v1/nodes', {'metadata': {'name': 'n1', 'uid': 'node-uid'}})
        os.link(self.at('api/ca.crt'), self.at('account/ca.crt'))
        os.link(self.api.token_file, self.at('account/token'))
        self.write('account/namespace', 'gpu-operator')
        self.write('entrypoint.sh', ENTRYPOINT, 0o700)
        self.make_driver()
        self.gpus()

    def finish(self):
        self.api.close()
        self.kubelet.stop()
        super().finish()

    def at(self, *parts):
        return os.path.join(self.host, *parts)

    def write(self, name, text, mode=0o644):
        """Replaced as a whole: the simulation reads some of it at any time."""
        with open(self.at(name + '.new'), 'w', encoding='utf-8') as file:
            file.write(text)
        os.chmod(self.at(name + '.new'), mode)
        os.rename(self.at(name + '.new'), self.at(name))

    def make_driver(self):
        """Its installation and device nodes, as far as a CDI specification names them."""
        for folder in (self.at('driver/dev'), self.at('driver') + LIBRARIES):
            os.makedirs(folder)
        for name in ('libcuda.so.550.163.01', 'libnvidia-ml.so.550.163.01'):
            shutil.copy(os.path.join(ROOTFS, 'usr/lib/warpshare/libwarpshare-nvml-sim.so'), self.at('driver') + LIBRARIES + '/' + name)
        for name in ('nvidia0', 'nvidia1', 'nvidiactl', 'nvidia-uvm'):
            os.mknod(self.at('driver/dev', name), 0o666 | stat.S_IFCHR, os.makedev(1, 3))

    def gpus(self, **changes):
        """Two of them; |changes| are keys of each in the scenario."""
        self.write('simulation/gpus.yaml', yaml.safe_dump({
            'driverVersion': '550.163.01', 'cudaVersion': '12.4',
            'gpus': [{'model': 'A100-40GB', 'uuid': uuid, **changes} for uuid in UUIDS]}))
        os.makedirs(self.at('simulation/processes'), exist_ok=True)
        self.write('simulation/mps.conf', 'version: 550\nlifetime: 600\nprocess-directory: /simulation/processes\n' + ''.join(
            'gpu: %s sms=108 memory=40960 cc=8 name=GPU\n' % uuid for uuid in UUIDS))

    def driver_is_ready(self, **variables):
        """What the operator's validation of the driver leaves; by default that of a driver container."""
        self.write('validations/driver-ready', ''.join('%s=%s\n' % pair for pair in {
            'IS_HOST_DRIVER': 'false', 'NVIDIA_DRIVER_ROOT': '/run/nvidia/driver', 'DRIVER_ROOT_CTR_PATH': '/driver-root',
            'NVIDIA_DEV_ROOT': '/run/nvidia/driver', 'DEV_ROOT_CTR_PATH': '/driver-root', **variables}.items()))

    def simulation(self):
        """What the container toolkit would bring: the driver's library and programs, here the simulated ones."""
        there = os.path.join(ROOTFS, 'usr/lib/warpshare')
        mounts = {LIBRARIES + '/libnvidia-ml.so.1': os.path.join(there, 'libwarpshare-nvml-sim.so'), '/simulation': self.at('simulation')}
        for name in os.listdir(os.path.join(there, 'mps-sim')):
            mounts['/usr/bin/' + name] = os.path.join(there, 'mps-sim', name)
        return mounts, {'WARPSHARE_SIM_SCENARIO': '/simulation/gpus.yaml', 'WARPSHARE_MPS_SIM': '/simulation/mps.conf'}

    def cluster(self):
        """Of every container with a service account."""
        return ({'/var/run/secrets/kubernetes.io/serviceaccount': self.at('account')},
                {'KUBERNETES_SERVICE_HOST': '127.0.0.1', 'KUBERNETES_SERVICE_PORT': str(self.api.port)})

    def start_as(self, command, environment, mounts):
        library_mounts, library_environment = self.simulation()
        return self.start(*command, environment={**library_environment, **environment}, mounts={**library_mounts, **mounts})

    # ---- the operator's containers ----

    def start_plugin(self, mps_root=None, config=False, shell='/bin/sh', **environment):
        """CDI is on unless told otherwise."""
        variables = {
            'PASS_DEVICE_SPECS': 'true', 'FAIL_ON_INIT_ERROR': 'true', 'DEVICE_LIST_STRATEGY': 'cdi-annotations,cdi-cri',
            'DEVICE_ID_STRATEGY': 'uuid', 'NVIDIA_VISIBLE_DEVICES': 'all', 'NVIDIA_DRIVER_CAPABILITIES': 'all',
            'MPS_ROOT': mps_root or '/run/nvidia/mps', 'MIG_STRATEGY': 'single', 'NVIDIA_MIG_MONITOR_DEVICES': 'all',
            'CDI_ENABLED': 'true', 'CDI_ANNOTATION_PREFIX': 'cdi.k8s.io/',
            'NVIDIA_CDI_HOOK_PATH': '/usr/local/nvidia/toolkit/nvidia-cdi-hook', **environment}
        mounts = {
            '/bin/entrypoint.sh': self.at('entrypoint.sh'), '/var/lib/kubelet/device-plugins': self.at('plugins'),
            '/run/nvidia/validations': self.at('validations'), '/driver-root': self.at('driver'), '/host': self.at('driver'),
            '/run/nvidia/driver': self.at('driver'),  # where it is before v24.6
            '/var/run/cdi': self.at('cdi'), '/dev/shm': self.at('mps/shm'), '/mps': self.at('mps')}
        if config:
            variables['CONFIG_FILE'] = '/config/config.yaml'
            mounts.update({'/config': self.at('config'), '/available-configs': self.at('configs')})
        os.makedirs(self.at('mps/shm'), exist_ok=True)
        return self.start_as([shell, '-c', '/bin/entrypoint.sh'], variables, mounts)

    def start_config_manager(self, process, is_init=False, folder='config'):
        mounts, environment = self.cluster()
        return self.start(
            'config-manager', mounts={**mounts, '/available-configs': self.at('configs'), '/config': self.at(folder)},
            environment={
                **environment, 'ONESHOT': 'true' if is_init else 'false', 'KUBECONFIG': '', 'NODE_NAME': 'n1',
                'NODE_LABEL': LABEL, 'CONFIG_FILE_SRCDIR': '/available-configs', 'CONFIG_FILE_DST': '/config/config.yaml',
                'DEFAULT_CONFIG': '', 'FALLBACK_STRATEGIES': 'empty', 'SEND_SIGNAL': 'false' if is_init else 'true',
                'SIGNAL': '' if is_init else '1', 'PROCESS_TO_SIGNAL': process})

    def mount_shm(self):
        return self.run('mps-control-daemon', 'mount-shm', mounts={'/mps': self.at('mps')})

    def start_mps(self, folder='config', **environment):
        return self.start_as(['mps-control-daemon'], {
            'NODE_NAME': 'n1', 'NVIDIA_VISIBLE_DEVICES': 'all', 'NVIDIA_DRIVER_CAPABILITIES': 'compute,utility',
            'MIG_STRATEGY': 'single', 'NVIDIA_MIG_MONITOR_DEVICES': 'all', 'CONFIG_FILE': '/config/config.yaml', **environment}, {
                '/dev/shm': self.at('mps/shm'), '/mps': self.at('mps'), '/config': self.at(folder),
                '/available-configs': self.at('configs')})

    def start_gfd(self, **environment):
        mounts, cluster = self.cluster()
        return self.start_as(['gpu-feature-discovery'], {
            **cluster, 'GFD_SLEEP_INTERVAL': '60s', 'GFD_FAIL_ON_INIT_ERROR': 'true', 'NAMESPACE': 'gpu-operator', 'NODE_NAME': 'n1',
            'POD_NAME': 'gpu-feature-discovery-x', 'MIG_STRATEGY': 'single', **environment}, {
                **mounts, '/etc/kubernetes/node-feature-discovery/features.d': self.at('features.d')})

    # ---- configurations, and what the node says ----

    def add_config(self, name, content):
        self.write('configs/' + name, yaml.safe_dump({'version': 'v1', **content}))

    def choose_config(self, name):
        self.api.patch('/api/v1/nodes', 'n1', {'metadata': {'labels': {LABEL: name}}})

    def wait(self, is_true, what):
        assert self.kubelet.wait(is_true, DEADLINE), 'never: %s\n%s' % (what, '\n'.join(
            '---- container %d\n%s' % (i, container.story()) for i, container in enumerate(self.containers)))

    def wait_counts(self, count, resource=GPU):
        self.wait(lambda: (self.kubelet.allocatable(resource), self.kubelet.capacity(resource)) == (count, count),
                  '%d %s are allocatable' % (count, resource))
