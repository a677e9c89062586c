# SPDX-License-Identifier: Apache-2.0
"""What a container runtime makes of kubelet's options: CDI devices by name, from all files of the folder.

It follows the Container Device Interface as containerd and CRI-O carry it out: every file of the folder is read, a device that two files
have is a conflict and no device, a name that no file has keeps the container from being made, and the edits come after kubelet's
variables, so that they count. A hook's program that does not know the hook ends with status 3, and then there is no container either.
"""
import json
import os


class Unresolvable(Exception):
    pass


class HookFailed(Exception):
    pass


def run_hook(host, hook):
    """As NVIDIA's programs do: each knows the hooks of its release, whose names are in its bytes. |host|: the host's root here."""
    name = hook['args'][2 if hook['args'][0] == 'nvidia-ctk' else 1]
    with open(host + hook['path'], 'rb') as program:
        if name.encode() not in program.read():
            raise HookFailed("error executing hook `%s` (exit code: 3): No help topic for '%s'" % (hook['path'], name))


class Cdi:
    def __init__(self, folder):
        self.devices = {}
        conflicts = set()
        for name in sorted(os.listdir(folder)):
            if not name.endswith('.json'):
                continue
            try:
                with open(os.path.join(folder, name), encoding='utf-8') as file:
                    spec = json.load(file)
            except FileNotFoundError:
                continue  # it was removed meanwhile
            for device in spec['devices']:
                qualified = '%s=%s' % (spec['kind'], device['name'])
                if qualified in self.devices:
                    conflicts.add(qualified)
                self.devices[qualified] = (spec.get('containerEdits', {}), device['containerEdits'])
        for qualified in conflicts:
            del self.devices[qualified]


class Container:
    """A container that was made: its variables, the paths of its device nodes, and what is mounted where: host paths by path."""

    def __init__(self, options, folder=None, own=None, host=None):
        """
        |own|: the variables of the pod itself, which kubelet puts after those of the plugins. |host|: the host's root, whose programs
        run the hooks; without it they are not run.
        """
        self.envs = {**options.envs, **(own or {})}
        self.nodes = set(options.devices)
        self.mounts = {path: mount.host_path for path, mount in options.mounts.items()}
        names = list(options.cdi_devices)
        for value in options.annotations.values():
            names += value.split(',')
        if not names:
            return
        devices = Cdi(folder).devices
        missing = [name for name in names if name not in devices]
        if missing:
            raise Unresolvable('unresolvable CDI devices ' + ', '.join(missing))
        for name in names:
            for edits in devices[name]:
                self.envs.update(assignment.split('=', 1) for assignment in edits.get('env', []))
                self.nodes |= {node['path'] for node in edits.get('deviceNodes', [])}
                self.mounts.update((mount['containerPath'], mount['hostPath']) for mount in edits.get('mounts', []))
                for hook in edits.get('hooks', []) if host else []:
                    run_hook(host, hook)
