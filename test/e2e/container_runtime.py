"""What a container runtime makes of kubelet's options: CDI devices by name, from all files of the folder.

It follows the Container Device Interface as containerd and CRI-O carry it out: every file of the folder is read, a device that two files
have is a conflict and no device, a name that no file has keeps the container from being made, and the edits come after kubelet's
variables, so that they count.
"""
import json
import os


class Unresolvable(Exception):
    pass


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

    def __init__(self, options, folder=None, own=None):
        """|own|: the variables of the pod itself, which kubelet puts after those of the plugins."""
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
