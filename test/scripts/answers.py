# SPDX-License-Identifier: Apache-2.0
"""What the tests of the scripts have in common: names, and what to make of an answer."""
REPO = 'registry.example.com/mine/warpshare'
LABEL = 'nvidia.com/device-plugin.config'
SETUP = 'warpshare.dev/setup'
NODE = 'gpu-node-1'


def labels(cluster, node=NODE):
    return {key: value for key, value in cluster.get('Node', node)['metadata'].get('labels', {}).items()
            if key in (LABEL, SETUP)}


def well(answer):
    """Standard output of what ended well, without a word of complaint."""
    status, out, err = answer
    assert (status, err) == (0, ''), out + err
    return out


def badly(answer, status=1):
    """All that it said."""
    assert answer[0] == status, answer
    return answer[1] + answer[2]
