# SPDX-License-Identifier: Apache-2.0
"""Each command that reads GPUs, with each function of NVML that never returns or ends the process: the command ends in time, and says where."""
import concurrent.futures
import json
import os
import re
import subprocess

import pytest
import yaml

from node import REPORT, SANITIZED, SIMULATOR, WARPSHARE, fast
from nvml_functions import FUNCTIONS, crash, hang
from test_mig import PARTED
from test_mig_apply import CALLS, H100, INTERRUPTED, Node

SCENARIO = {'driverVersion': '580.105.08', 'gpus': [
    {'model': 'H100-80GB', 'mig': {'devices': [{'profile': '1g.10gb'}, {'profile': '1c.3g.40gb'}]},
     'processes': [{'pid': 1, 'name': 'a', 'memory': '1GiB', 'gi': 1, 'ci': 0}]},
    {'model': 'H100-80GB', 'nvlink': 'all', 'processes': [{'pid': 1, 'name': 'b', 'memory': '1GiB'}]},
    {'model': 'A100-40GB', 'nvlink': 'all', 'utilization': {'gpu': 7, 'memory': 2}}]}
# How many functions each has to call at least: else the table would be empty.
COMMANDS = {
    'plan': (20, [WARPSHARE, 'plan', '--output', 'json']),
    'labels': (20, [WARPSHARE, 'labels', '--output', 'plain']),
    'top': (30, [WARPSHARE, 'top', '--once', '--processes', '--history', '--output', 'json']),
    'mig plan': (15, [WARPSHARE, 'mig', 'plan', '--config', 'all-balanced', '--output', 'json']),
    'mig assert': (15, [WARPSHARE, 'mig', 'assert', '--config', 'all-disabled']),
    'mig export': (15, [WARPSHARE, 'mig', 'export']),
    'mig checkpoint': (15, [WARPSHARE, 'mig', 'checkpoint']),
    'mig generate': (15, [WARPSHARE, 'mig', 'generate']),
    'nvidia-mig-parted export': (15, [PARTED, 'export']),
}
# A call has ten seconds of the program's, and the machine may be busy.
PATIENCE = 60


def run(folder, command, scenario):
    file = folder / 'node.yaml'
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump(scenario), encoding='utf-8')
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, stdin=subprocess.DEVNULL,
                          env={**os.environ, **fast(), 'WARPSHARE_NVML_LIBRARY': SIMULATOR, 'WARPSHARE_SIM_SCENARIO': str(file)})
    assert not REPORT.search(done.stderr), done.stderr
    return done


def run_all(folder, commands, faults):
    """What becomes of each command with each fault, and with none ('')."""
    with concurrent.futures.ThreadPoolExecutor(40 if SANITIZED else 150) as pool:
        jobs = {(name, function): pool.submit(run, folder / name.replace(' ', '-') / (function or 'none'), command, {**SCENARIO, **fault})
                for name, command in commands.items() for function, fault in faults.items()}
        return {key: job.result() for key, job in jobs.items()}


ABOUT = r'%s(_v\d+)?( of GPU [0-2]( \(GPU-\S+\))?| of GPU-\S+)? '
HANGS = ABOUT + r'does not return: it was given up after \d+ s'
CRASHES = ABOUT + r"has not returned: no answer: process \d+ \('warpshare-(apart|check)'\) has ended in %s(_v\d+)?"


@pytest.mark.parametrize('fault, says', [(hang, HANGS), (crash, CRASHES)], ids=('hangs', 'crashes'))
def test_a_command_says_which_call_is_to_blame(fault, says, tmp_path):
    results = run_all(tmp_path, {name: command for name, (_, command) in COMMANDS.items()}, {'': {}, **{name: fault(name) for name in FUNCTIONS}})
    for name, (least, _) in COMMANDS.items():
        healthy = results[(name, '')]
        assert healthy.returncode == (1 if name == 'mig assert' else 0), healthy.stderr
        lost = set()
        for function in FUNCTIONS:
            done = results[(name, function)]
            if done.returncode == healthy.returncode:
                continue  # it is not called
            assert done.returncode == (INTERRUPTED if name.startswith('mig') else 1), (name, function, done)
            assert re.search(says.replace('%s', function) + '\n$', done.stderr), (name, function, done.stderr)
            lost.add(function)
        assert len(lost) >= least and {'nvmlDeviceGetCount', 'nvmlDeviceGetName'} <= lost, (name, lost)
        assert ('nvmlInit' in lost) == (fault is hang)  # what the simulator has no fault for: a crash of it, and nvmlShutdown


@pytest.mark.parametrize('fault, says', [(hang, 'this check did not end in time: ' + HANGS), (crash, 'this check ended too soon: ' + CRASHES)],
                         ids=('hangs', 'crashes'))
def test_the_doctor_goes_on_after_each_of_them(fault, says, tmp_path):
    command = [WARPSHARE, 'doctor', '--deadline', '12' if fault is hang else '240', '--output', 'json']
    results = run_all(tmp_path, {'doctor': command}, {'': {}, **{name: fault(name) for name in FUNCTIONS}})
    findings = {function: json.loads(done.stdout)['findings'] for (_, function), done in results.items()}
    healthy = findings.pop('')
    n_lost = 0
    for function, found in findings.items():
        assert {finding['check'] for finding in found} == {finding['check'] for finding in healthy}
        news = [finding['found'] for finding in found if finding['found'].startswith('this check')]
        assert all(re.fullmatch(says.replace('%s', function), text) for text in news), (function, news)
        n_lost += bool(news)
    assert n_lost >= 25


def change_and_resume(folder, call):
    folder.mkdir()
    node = Node(folder, {**H100, 'mig': {'devices': [{'profile': '1g.10gb', 'start': 0}, {'profile': '2g.20gb', 'start': 4}]}})
    node.write(**hang(call))
    done = node.apply_config('large', **fast())
    assert done.returncode == INTERRUPTED
    assert re.fullmatch('warpshare mig apply: ' + HANGS.replace('%s', call) + '\n', done.stderr), done.stderr
    node.write(delays={}, init={})
    assert node.apply_config('large').returncode == 0
    assert node.has('large') and node.is_settled()


def test_a_change_that_hangs_is_finished_by_the_next(tmp_path):
    """All but nvmlDeviceSetMigMode, which may take a minute: test_mig_apply.py has what is left when it dies."""
    calls = [*(call for call in CALLS if call != 'nvmlDeviceSetMigMode'), 'nvmlInit', 'nvmlDeviceGetMigMode']
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        for job in [pool.submit(change_and_resume, tmp_path / call, call) for call in calls]:
            job.result()
