# SPDX-License-Identifier: Apache-2.0
"""Programs whose memory ends, at each of their allocations: they say so and end, and never go on with half of what they have."""
import os
import signal
import subprocess

import pytest

from node import SIMULATOR, WARPSHARE

LIBRARY = os.environ['WARPSHARE_SHORT_MEMORY']
CONFIG = """
version: v1
sharing:
  mps:
    resources:
    - {name: nvidia.com/gpu, replicas: 10}
"""


class Program:
    """One that ends by itself, on two simulated GPUs."""

    def __init__(self, folder, words):
        scenario = folder / 'scenario.yaml'
        scenario.write_text('gpus: [{model: T4}, {model: H100-80GB}]')
        config = folder / 'config.yaml'
        config.write_text(CONFIG)
        self.words = [WARPSHARE, *words, '--nvml-library', SIMULATOR, '--config-file', str(config)]
        self.environment = {**os.environ, 'LD_PRELOAD': LIBRARY, 'WARPSHARE_SIM_SCENARIO': str(scenario)}

    def run(self, **environment):
        return subprocess.run(self.words, env={**self.environment, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60, check=False)


@pytest.mark.parametrize('words', (('plan', '--output', 'json'), ('plan', '--dra', '--output', 'json'), ('plan',)), ids=' '.join)
def test_a_program_without_memory_says_so_and_ends(tmp_path, words):
    program = Program(tmp_path, words)
    whole = program.run(SHORT_MEMORY_COUNT='1')
    count = int(whole.stderr.splitlines()[-1])
    assert whole.returncode == 0 and count > 100, whole
    said = 0
    for at in range(1, count + 1):
        done = program.run(SHORT_MEMORY_AT=str(at))
        # The one that reads and prints is a process of its own, whose end the program reports.
        if done.returncode in (-signal.SIGABRT, 1) and 'out of memory\n' in done.stderr:
            said += 1
        elif done.returncode > 0:  # the C library or the driver's, which a program may do without, or not
            assert done.stderr or done.stdout, 'allocation %d of %d: %s' % (at, count, done)
        else:
            assert (done.returncode, done.stdout) == (0, whole.stdout), 'allocation %d of %d: %s' % (at, count, done)
    assert said > count // 2, '%d of %d' % (said, count)
