# SPDX-License-Identifier: Apache-2.0
import json
import os
import subprocess

import pytest

# 16 GPUs, each with all of its places for MIG.
MANY = 'driverVersion: 580.105.08\ncudaVersion: "13.0"\ngpus:\n- {model: H100-80GB, count: 16}\n'


@pytest.fixture(scope='session')
def print_slices(tmp_path_factory):
    """Of a scenario by name, or of 16 GPUs ('many'), what test/dra/print_slices.c makes."""
    folder = tmp_path_factory.mktemp('scenarios')

    def run(scenario, *words):
        path = os.path.join(os.environ['WARPSHARE_SCENARIOS'], scenario + '.yaml')
        if scenario == 'many':
            path = folder / 'many.yaml'
            path.write_text(MANY)
        result = subprocess.run([os.environ['WARPSHARE_PRINT_SLICES'], path, *words], capture_output=True, text=True, check=True)
        return json.loads(result.stdout)

    return run
