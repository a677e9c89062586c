# SPDX-License-Identifier: Apache-2.0
"""What a container is started with, of the answers of all its resources, as kubelet's device manager joins them.

It follows deviceRunContainerOptions of kubelet's pod_devices.go: the first value of a variable or an annotation wins, and so does
the first host path for a path in the container; CDI devices are united. A value that loses is dropped and only logged.
kubelet goes through a container's resources in the order of a Go map, which is any: so here it is shuffled.
"""

import random


class ContainerOptions:
    def __init__(self, responses, shuffle=random.shuffle):
        self.envs = {}
        self.annotations = {}
        self.devices = {}
        self.mounts = {}
        self.cdi_devices = []
        self.conflicts = []
        order = list(responses)
        shuffle(order)
        for resource in order:
            self._add(responses[resource])

    def _add(self, response):
        for name, value in response.envs.items():
            self._keep_first('Environment variable has conflicting setting', self.envs, name, value, value)
        for device in response.devices:
            self._keep_first('Container device has conflicting mapping host devices', self.devices,
                             device.container_path, device, device.host_path)
        for mount in response.mounts:
            self._keep_first('Container mount has conflicting mapping host mounts', self.mounts,
                             mount.container_path, mount, mount.host_path)
        for name, value in response.annotations.items():
            self._keep_first('Annotation has conflicting setting', self.annotations, name, value, value)
        for device in response.cdi_devices:
            if device.name not in self.cdi_devices:
                self.cdi_devices.append(device.name)

    def _keep_first(self, complaint, known, key, entry, value):
        """What kubelet compares is |value|: a mount that differs only in being read-only is no conflict to it."""
        if key not in known:
            known[key] = entry
            return
        kept = getattr(known[key], 'host_path', known[key])
        if kept != value:
            self.conflicts.append((complaint, key, kept, value))
