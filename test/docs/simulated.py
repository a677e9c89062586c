# SPDX-License-Identifier: Apache-2.0
"""A node in a folder, on which the commands of a page are run: two simulated A100, a kubelet that listens, no agent, no MPS."""
import os
import socket
import stat

DRIVER = '580.105.08'
SCENARIO = f'''driverVersion: {DRIVER}
gpus:
- {{model: A100-40GB, count: 2, nvlink: all}}
'''
MODULE = f'NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Wed Oct 29 23:15:11 UTC 2025\n'


class SimulatedNode:
    def __init__(self, folder):
        self.folder = folder
        self.listeners = []
        self.work = self.make_folder('work')
        self._write('node.yaml', SCENARIO)
        self._write('root/proc/driver/nvidia/version', MODULE)
        self._write('root/sys/fs/cgroup/cgroup.controllers', 'cpu memory\n')
        self.make_folder('root/dev')
        for name in ('nvidiactl', 'nvidia-uvm', 'nvidia0', 'nvidia1'):
            self._make_device('root/dev/' + name)
        self.make_folder('root/proc/self/ns')
        os.symlink('pid:[4026531836]', self.path('root/proc/self/ns/pid'))
        self.make_folder('cdi')
        self._listen('kubelet/kubelet.sock')
        self.environment = {
            **{name: value for name, value in os.environ.items()
               if not name.startswith(('CUDA_', 'NVIDIA_', 'KUBE', 'NODE_', 'POD_', 'MPS_', 'GFD_', 'CONFIG_'))},
            'HOME': folder,
            'PATH': os.path.dirname(os.environ['WARPSHARE']) + ':/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
            'WARPSHARE_NVML_LIBRARY': os.environ['WARPSHARE_NVML_SIM'],
            'WARPSHARE_SIM_SCENARIO': self.path('node.yaml'),
            'WARPSHARE_SYSTEM_ROOT': self.path('root'),
            'WARPSHARE_MPS_DIRECTORY': self.path('mps'),
            'WARPSHARE_CDI_ROOT': self.path('cdi'),
            'WARPSHARE_POD_RESOURCES_SOCKET': '',  # nobody would answer there
            'KUBELET_SOCKET': self.path('kubelet/kubelet.sock'),
            'WARPSHARE_LABELS_FILE': self.path('features.d/gfd'),
            'DRIVER_ROOT_CTR_PATH': self.path('driver'),
            'LC_ALL': 'C.UTF-8',
        }

    def path(self, name):
        return os.path.join(self.folder, name)

    def make_folder(self, name):
        os.makedirs(self.path(name), mode=0o755, exist_ok=True)
        return self.path(name)

    def _write(self, name, text):
        self.make_folder(os.path.dirname(name))
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)

    def _make_device(self, name):
        try:
            os.mknod(self.path(name), 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:  # not root: a page shows no line of the doctor about device nodes
            os.symlink('/dev/null', self.path(name))

    def _listen(self, name):
        self.make_folder(os.path.dirname(name))
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path(name))
        listener.listen(64)
        self.listeners.append(listener)

    def write(self, name, text):
        """Into the folder in which commands are run."""
        self._write('work/' + name, text)

    def finish(self):
        for listener in self.listeners:
            listener.close()
