# SPDX-License-Identifier: Apache-2.0
"""A ConfigMap as kubelet mounts it: links to "..data", which is a link that is turned to a new folder when the content changes."""
import os
import shutil

import yaml


def text_of(config):
    return config if isinstance(config, str) else yaml.safe_dump(config, sort_keys=False)


class MountedConfigMap:
    def __init__(self, folder, **configs):
        self.folder = folder
        self.version = 0
        os.makedirs(folder)
        self.swap(**configs)

    def swap(self, **configs):
        """The new content, all of it; appears at once."""
        self.version += 1
        before = os.readlink(self.path('..data')) if self.version > 1 else None
        new = '..2026_11_22_13_00_00.%d' % self.version
        os.mkdir(self.path(new))
        for name, config in configs.items():
            with open(self.path(new, name), 'w', encoding='utf-8') as file:
                file.write(text_of(config))
        os.symlink(new, self.path('..data_tmp'))
        os.rename(self.path('..data_tmp'), self.path('..data'))
        for name in configs:
            if not os.path.lexists(self.path(name)):
                os.symlink('..data/' + name, self.path(name))
        for name in os.listdir(self.folder):
            if not name.startswith('..') and name not in configs:
                os.unlink(self.path(name))
        if before:
            shutil.rmtree(self.path(before))

    def path(self, *names):
        return os.path.join(self.folder, *names)
