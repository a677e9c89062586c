# SPDX-License-Identifier: Apache-2.0
"""The functions of NVML that the programs call, as src/gpu/nvml.h lists them, and how the simulated NVML makes one hang or crash."""
import os
import pathlib
import re

_SOURCE = pathlib.Path(os.environ['WARPSHARE_SOURCE'])
_TABLE = re.search(r'^#define NVML_FUNCTIONS.*?\n\n', (_SOURCE / 'src/gpu/nvml.h').read_text(encoding='utf-8'), re.MULTILINE | re.DOTALL)[0]
_SYMBOLS = set(re.findall(r'"(nvml\w+)"', _TABLE))
# A name without a version means all versions.
FUNCTIONS = sorted({name if re.sub(r'_v\d+$', '', name) not in _SYMBOLS else re.sub(r'_v\d+$', '', name) for name in _SYMBOLS})
# The functions that are told which GPU they are about, so that one GPU alone can hang in them.
OF_A_GPU = [name for name in FUNCTIONS if re.search('Instance|Device', name) and
            name not in ('nvmlDeviceGetCount', 'nvmlDeviceGetHandleByIndex')]
FOR_EVER = '600s'


def hang(function):
    """What a scenario, or a GPU in it, says so that the function never returns."""
    return {'init': {'delay': FOR_EVER}} if function == 'nvmlInit' else {'delays': {function: FOR_EVER}}


def crash(function):
    """What a scenario, or a GPU in it, says so that the function ends the process that calls it."""
    return {'errors': {function: {'kills': 'before'}}}
