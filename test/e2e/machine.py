# SPDX-License-Identifier: Apache-2.0
"""The driver's part of a machine, in the node's folder: its library, its version, and the GPUs that the kernel gave it."""
import os
import shutil

from node import SIMULATOR


class Machine:
    def __init__(self, node, gpus):
        self.root = os.path.join(node.folder, 'machine')
        self.library = os.path.join(self.root, 'libnvidia-ml.so.1')
        self._bound = os.path.join(self.root, 'sys/bus/pci/drivers/nvidia')
        self._node = node
        os.makedirs(self._bound)
        os.makedirs(os.path.join(self.root, 'sys/module/nvidia'))
        self.install('550.163.01')
        self.plug(gpus)
        node.library = self.library

    @property
    def options(self):
        return ['--system-root', self.root]

    def install(self, version):
        """Another driver, as an upgrade leaves it: another file under the same name, and another module in the kernel."""
        self.install_library()
        with open(os.path.join(self.root, 'sys/module/nvidia/version'), 'w', encoding='ascii') as file:
            file.write(version + '\n')

    def install_library(self):
        shutil.copyfile(SIMULATOR, self.library + '.new')
        os.rename(self.library + '.new', self.library)

    def remove_library(self):
        os.unlink(self.library)

    def plug(self, count):
        """The kernel's driver has |count| GPUs from now on."""
        for name in os.listdir(self._bound):
            os.unlink(os.path.join(self._bound, name))
        for i in range(count):
            with open(os.path.join(self._bound, '0000:%02x:00.0' % (0x10 + i)), 'w', encoding='ascii'):
                pass
