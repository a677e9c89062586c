"""A program beside the agent that changes the MIG geometry of simulated GPUs by NVML, as nvidia-smi does, in a process of its own; and what
there is, read from the scenario's geometryFile (sim/nvml/world_geometry.c says how it is written).

    made = create(scenario, uuid, SMALL, 4)       the id of its GPU instance
    assert placements(geometry, uuid) == {(SMALL, 4)}
    destroy(scenario, uuid, made)
"""
import os
import subprocess
import sys

SMALL, MIDDLE, LARGE = 19, 14, 9  # ids of the profiles 1g.10gb, 2g.20gb and 3g.40gb

PROGRAM = """
import ctypes, sys
verb, uuid, first, second = sys.argv[1:]
nvml = ctypes.CDLL(%r)
device, instance, compute = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
number = ctypes.c_uint(0)
profile = (ctypes.c_uint * 64)()

def check(code):
    if code != 0:
        sys.exit('NVML answered %%d' %% code)

check(nvml.nvmlInit_v2())
check(nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(device)))
if verb == 'create':
    placement = (ctypes.c_uint * 2)(int(second), 1)
    possible = (ctypes.c_uint * 128)()
    check(nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, int(first), None, ctypes.byref(number)))
    check(nvml.nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, int(first), possible, ctypes.byref(number)))
    placement[1] = possible[1]
    check(nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, int(first), placement, ctypes.byref(instance)))
    check(nvml.nvmlGpuInstanceGetInfo(instance, profile))
    print(profile[2])
    check(nvml.nvmlGpuInstanceGetComputeInstanceProfileInfo(instance, 0, 0, profile))
    check(nvml.nvmlGpuInstanceCreateComputeInstance(instance, profile[0], ctypes.byref(compute)))
else:
    check(nvml.nvmlDeviceGetGpuInstanceById(device, int(first), ctypes.byref(instance)))
    check(nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0, ctypes.byref(compute)))
    check(nvml.nvmlComputeInstanceDestroy(compute))
    check(nvml.nvmlGpuInstanceDestroy(instance))
""" % os.environ['WARPSHARE_NVML_SIM']


def _run(scenario, *arguments):
    result = subprocess.run([sys.executable, '-c', PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False,
                            env={**os.environ, 'WARPSHARE_SIM_SCENARIO': scenario})
    assert result.returncode == 0, result.stderr
    return result.stdout


def create(scenario, uuid, profile, start):
    """An instance with a compute instance of one slice; its id."""
    return int(_run(scenario, 'create', uuid, profile, start))


def destroy(scenario, uuid, instance):
    _run(scenario, 'destroy', uuid, instance, 0)


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
