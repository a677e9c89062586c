# SPDX-License-Identifier: Apache-2.0
"""A program beside the agent that changes the MIG geometry of simulated GPUs, as nvidia-smi does (mig_driver.c); and what there is, read from
the scenario's geometryFile (sim/nvml/world_geometry.c says how it is written).

    made = create(scenario, uuid, SMALL, 4)       the id of its GPU instance
    assert placements(geometry, uuid) == {(SMALL, 4)}
    destroy(scenario, uuid, made)
"""
import os
import subprocess

SMALL, MIDDLE, LARGE = 19, 14, 9  # ids of the profiles 1g.10gb, 2g.20gb and 3g.40gb


def _run(scenario, *arguments):
    result = subprocess.run([os.environ['WARPSHARE_MIG_DRIVER'], *map(str, arguments)], capture_output=True, text=True, check=False,
                            env={**os.environ, 'WARPSHARE_SIM_SCENARIO': scenario})
    assert result.returncode == 0, result.stderr
    return result.stdout


def create(scenario, uuid, profile, start):
    """The id of its GPU instance."""
    return int(_run(scenario, 'create', uuid, profile, start))


def destroy(scenario, uuid, instance):
    _run(scenario, 'destroy', uuid, instance)


def placements(geometry, uuid):
    """The profiles and starts of the GPU instances that are there."""
    found, is_gpu = set(), False
    try:
        with open(geometry, encoding='ascii') as file:
            lines = [line.split() for line in file]
    except FileNotFoundError:
        return found
    for words in lines:
        if words[0] == 'gpu':
            is_gpu = words[-1] == uuid
        elif words[0] == 'gi' and is_gpu:
            found.add((int(words[1]), int(words[3])))
    return found
