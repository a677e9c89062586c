# SPDX-License-Identifier: Apache-2.0
"""What the suite is told by its environment. Nothing is guessed from kubectl's own configuration: a cluster is named on purpose, or not used."""
import dataclasses
import os
import re

PREFIX = 'WARPSHARE_CLUSTER_'
NAMES = ('WARPSHARE_CLUSTER_KUBECONFIG', 'WARPSHARE_CLUSTER_IMAGE', 'WARPSHARE_CLUSTER_NVIDIA_IMAGE', 'WARPSHARE_CLUSTER_NODE',
         'WARPSHARE_CLUSTER_SECONDS', 'WARPSHARE_CLUSTER_TIMEOUT')


class Wrong(Exception):
    """A variable has a value that cannot be used."""


@dataclasses.dataclass
class Settings:
    kubeconfig: str
    image: str         # of Warpshare, as the nodes have it already
    nvidia_image: str  # of NVIDIA's device plugin, likewise; '': that part is skipped
    node: str          # '': the first one that takes pods
    seconds: int       # for which pods come and go in each test that does something meanwhile
    timeout: int       # seconds for each wait


def version(source):
    with open(os.path.join(source, 'meson.build'), encoding='utf-8') as file:
        return re.search(r"^  version: '(.*)',", file.read(), re.MULTILINE).group(1)


def number(environment, name, default):
    text = environment.get(PREFIX + name, '')
    if not text:
        return default
    if not re.fullmatch(r'[1-9]\d{0,4}', text):
        raise Wrong(f"{PREFIX}{name}: '{text}', must be a whole number of seconds from 1 to 99999")
    return int(text)


def settings(environment, source):
    """None if no cluster is named."""
    unknown = [name for name in environment if name.startswith(PREFIX) and name not in NAMES]
    if unknown:
        raise Wrong(f'{unknown[0]}: no variable of this suite; there are {", ".join(NAMES)}')
    if not environment.get(PREFIX + 'KUBECONFIG'):
        return None
    kubeconfig = environment[PREFIX + 'KUBECONFIG']
    if not os.path.isfile(kubeconfig):
        raise Wrong(f"{PREFIX}KUBECONFIG: '{kubeconfig}' is no file; it takes one kubeconfig, not a list")
    return Settings(kubeconfig=kubeconfig, image=environment.get(PREFIX + 'IMAGE') or f'warpshare:{version(source)}',
                    nvidia_image=environment.get(PREFIX + 'NVIDIA_IMAGE', ''), node=environment.get(PREFIX + 'NODE', ''),
                    seconds=number(environment, 'SECONDS', 30), timeout=number(environment, 'TIMEOUT', 180))
