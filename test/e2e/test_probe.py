# SPDX-License-Identifier: Apache-2.0
"""`warpshare probe` on a simulated libcuda: what it measures, what it holds against the grant, and how it fails."""
import json
import os
import re
import signal
import subprocess
import time

import pytest
import yaml

from node import DEADLINE, REPORT, WARPSHARE

CUDA_SIM = os.environ['WARPSHARE_CUDA_SIM_LIBRARY']
SHARE = {'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE': '35', 'CUDA_MPS_PINNED_DEVICE_MEM_LIMIT': '0=11411M',
         'WARPSHARE_SMS': '46', 'WARPSHARE_REPLICAS': '7/20', 'WARPSHARE_TIER': 'verified'}


class Result:
    def __init__(self, process):
        self.out, self.err = process.communicate(timeout=90)
        self.status = process.returncode
        assert not REPORT.search(self.err), self.err

    def __repr__(self):
        return 'exit status %d\n%s%s' % (self.status, self.out, self.err)

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def start(tmp_path):
    def start_probe(*arguments, scenario=None, **environment):
        path = tmp_path / 'gpu.yaml'
        path.write_text(yaml.safe_dump(scenario or {}))
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(('CUDA_', 'WARPSHARE_'))}
        return subprocess.Popen(
            [WARPSHARE, 'probe', '--cuda-library', CUDA_SIM, '--nvml-library', '/nonexistent/libnvidia-ml.so.1', *arguments],
            env={**inherited, 'WARPSHARE_CUDA_SIM': str(path), **environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return start_probe


@pytest.fixture
def probe(start):
    return lambda *arguments, **more: Result(start(*arguments, **more))


def test_a_share_that_is_kept_holds(probe):
    done = probe('--json', scenario={'mps': 'always'}, **SHARE)
    assert done.status == 0, done
    told = done.json
    assert told['holds'] is True and told['findings'] == [] and told['mps'] is True
    sms = told['multiprocessors']
    assert (sms['allocated'], sms['reported'], sms['affinity'], sms['atOnce']) == (46, 46, 46, 46)
    memory = told['memory']
    assert memory['totalMib'] == 81559 and memory['refused'] is True
    assert memory['triedMib'] == 11411 + 64
    assert 11411 - 300 - 2 < memory['allocatedMib'] <= 11411 - 300
    assert told['allocation'] == {'threadPercentage': 35.0, 'memoryMib': 11411, 'multiprocessors': 46,
                                  'tier': 'verified', 'replicas': '7/20', 'fraction': None}
    assert told['device']['uuid'] == '5c89852c-d268-4c3f-9b07-0022ad3fdd14'


def metadata_of(tmp_path, memory, threads):
    """A folder with device metadata as a container has it."""
    folder = tmp_path / 'attributes/resourceclaims/device-plugin/gpu'
    folder.mkdir(parents=True)
    attributes = {'uuid': {'string': 'GPU-5c89852c-d268-4c3f-9b07-0022ad3fdd14'}, 'memoryMiB': {'int': memory},
                  'threadPercentage': {'int': threads}, 'tier': {'string': 'verified'}}
    requests = [{'name': 'gpu', 'devices': [{'driver': 'gpu.warpshare.dev', 'pool': 'p', 'name': 'gpu-0', 'attributes': attributes}]}]
    with open(folder / 'gpu.warpshare.dev-metadata.json', 'w', encoding='utf-8') as file:
        for version in ('v3', 'v1beta1', 'v1alpha1'):
            json.dump({'kind': 'DeviceMetadata', 'apiVersion': 'metadata.resource.k8s.io/' + version,
                       'requests': requests if version != 'v3' else 'of another form'}, file)
            file.write('\n')
    return str(tmp_path / 'attributes')


def test_a_share_is_read_from_device_metadata_alone(probe, tmp_path):
    done = probe('--json', '--device-metadata', metadata_of(tmp_path, 11411, 35), scenario={'mps': 'always'},
                 CUDA_MPS_ACTIVE_THREAD_PERCENTAGE='35', CUDA_MPS_PINNED_DEVICE_MEM_LIMIT='0=11411M', WARPSHARE_SMS='46')
    assert done.status == 0, done
    assert done.json['allocation'] == {'threadPercentage': 35.0, 'memoryMib': 11411, 'multiprocessors': 46,
                                       'tier': 'verified', 'replicas': None, 'fraction': None}
    assert done.json['findings'] == []


def test_a_limit_that_only_device_metadata_names_is_held_against_what_the_container_gets(probe, tmp_path):
    done = probe('--json', '--device-metadata', metadata_of(tmp_path, 8000, 35), scenario={'mps': 'always'}, **SHARE)
    assert done.status == 1, done
    texts = [finding['text'] for finding in done.json['findings']]
    assert any('the limit is 8000 MiB' in text for text in texts), texts
    assert any('device metadata says 8000 MiB and 35 %, the environment something else' in text for text in texts), texts


def test_device_metadata_that_cannot_be_read_is_named_and_the_environment_counts(probe, tmp_path):
    folder = metadata_of(tmp_path, 8000, 35)
    with open(folder + '/resourceclaims/device-plugin/gpu/gpu.warpshare.dev-metadata.json', 'w', encoding='utf-8') as file:
        file.write('{')
    done = probe('--json', '--device-metadata', folder, scenario={'mps': 'always'}, **SHARE)
    assert done.status == 0, done
    assert 'device metadata that cannot be read' in done.err


def test_the_table_says_the_same_to_people(probe):
    done = probe(scenario={'mps': 'always'}, **SHARE)
    assert done.status == 0, done
    assert 'The allocation holds.' in done.out
    assert re.search(r'^MPS +in use$', done.out, re.MULTILINE)
    assert re.search(
        r'^allocation +7/20 replicas, 35\.0 % of the threads, 11411 MiB, tier verified$', done.out, re.MULTILINE)
    assert re.search(r'^SMs +46 at one time .* 46 allocated; CUDA reports 46', done.out, re.MULTILINE)
    assert re.search(r'^memory .* then it was refused', done.out, re.MULTILINE)


def test_limits_that_are_not_in_force_are_found(probe):
    done = probe('--json', scenario={'mps': 'always', 'limits': 'ignored'}, **SHARE)
    assert done.status == 1, done
    broken = [finding['text'] for finding in done.json['findings'] if finding['broken']]
    assert broken == ['memory: 11474 MiB could be allocated, the limit is 11411 MiB',
                      'SMs: 132 could be used at one time, 46 are allocated']


def test_a_share_without_mps_is_found(probe):
    done = probe(scenario={'mps': 'never'}, **SHARE)
    assert done.status == 1, done
    assert re.search(r'^BROKEN +MPS: not in use, so no limit is in force', done.out, re.MULTILINE)
    assert 'does NOT hold' in done.out


def test_memory_that_neighbours_hold_is_found(probe):
    done = probe('--json', scenario={'mps': 'always', 'neighbourMemory': 75000}, **SHARE)
    assert done.status == 1, done
    text, = [finding['text'] for finding in done.json['findings']]
    assert re.match(r'memory: only 62\d\d of 11411 MiB could be allocated', text), text


def test_sms_that_neighbours_hold_are_no_broken_promise(probe):
    done = probe('--json', scenario={'mps': 'always', 'busyMultiprocessors': 30}, **SHARE)
    assert done.status == 0, done
    finding, = done.json['findings']
    assert not finding['broken'] and finding['text'].startswith('SMs: 16 of 46 were free'), finding


def test_where_nothing_is_granted_little_is_tried(probe):
    done = probe('--json')
    assert done.status == 0, done
    assert done.json['memory']['triedMib'] == 1024 and done.json['memory']['refused'] is False
    assert done.json['mps'] is False


@pytest.mark.parametrize('option, tried, got, refused', [
    (('--memory', '5000'), 5000, 5000, False), (('--memory', 'all'), 81559, 81258, True)])
def test_the_memory_to_try_can_be_chosen(probe, option, tried, got, refused):
    done = probe('--json', *option)
    assert done.status == 0, done
    memory = done.json['memory']
    assert (memory['triedMib'], memory['allocatedMib'], memory['refused']) == (tried, got, refused)


def test_memory_can_be_left_alone(probe):
    done = probe('--json', '--no-memory', scenario={'mps': 'always', 'calls': {'cuMemAlloc': {'error': 2, 'after': 4}}},
                 **SHARE)
    assert done.status == 0, done
    assert 'allocatedMib' not in done.json['memory']
    assert [finding['text'] for finding in done.json['findings']] == ['memory: the limit of 11411 MiB was not tried']


def test_a_promise_that_cannot_be_understood_does_not_hold(probe):
    done = probe('--json', scenario={'mps': 'always'}, WARPSHARE_SMS='all')
    assert done.status == 1, done
    assert done.json['error']['text'] == "WARPSHARE_SMS: 'all' is not a number of SMs"


@pytest.mark.parametrize('call, code, name', [
    ('cuInit', 805, 'CUDA_ERROR_MPS_CONNECTION_FAILED'), ('cuInit', 100, 'CUDA_ERROR_NO_DEVICE'),
    ('cuCtxCreate', 46, 'CUDA_ERROR_DEVICE_UNAVAILABLE'), ('cuCtxCreate', 807, 'CUDA_ERROR_MPS_SERVER_NOT_READY'),
    ('cuCtxCreate', 808, 'CUDA_ERROR_MPS_MAX_CLIENTS_REACHED'),
    ('cuCtxCreate', 915, 'CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION'),
    ('cuModuleLoadData', 222, 'CUDA_ERROR_UNSUPPORTED_PTX_VERSION'), ('cuLaunchKernel', 719, 'CUDA_ERROR_LAUNCH_FAILED'),
    ('cuMemFree', 806, 'CUDA_ERROR_MPS_RPC_FAILURE'), ('cuEventSynchronize', 810, 'CUDA_ERROR_MPS_CLIENT_TERMINATED')])
def test_an_error_of_cuda_is_explained(probe, call, code, name):
    done = probe('--json', scenario={'calls': {call: {'error': code}}})
    assert done.status == 3, done
    error = done.json['error']
    assert (error['code'], error['name'], error['call']) == (code, name, call)
    assert error['text'].startswith('%s: error %d, %s: ' % (call, code, name)) and '; ' in error['text']


@pytest.mark.parametrize('call, words', [
    ('cuInit', 'cuInit does not return (1 s): probably an MPS server of another user id holds the daemon in /mps/gpu/pipe'),
    ('cuCtxCreate', 'cuCtxCreate does not return (1 s): probably an MPS server of another user id'),
    ('cuCtxSynchronize', 'counting SMs does not end (1 s): the GPU or the MPS server hangs')])
def test_a_call_that_hangs_is_given_up(probe, call, words):
    done = probe('--timeout', '1', scenario={'calls': {call: {'hang': True}}}, CUDA_MPS_PIPE_DIRECTORY='/mps/gpu/pipe')
    assert done.status == 3, done
    assert done.err.startswith('warpshare probe: ' + words), done


def test_a_library_that_ends_the_process_is_reported(probe):
    done = probe(scenario={'calls': {'cuCtxCreate': {'crash': True}}})
    assert done.status == 3, done
    assert 'CUDA ended the process during cuCtxCreate (signal 9)' in done.err


def test_without_cuda_it_says_what_is_missing():
    done = Result(subprocess.Popen([WARPSHARE, 'probe', '--cuda-library', '/nonexistent/libcuda.so.1'], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    assert done.status == 3
    assert done.err.startswith('warpshare probe: /nonexistent/libcuda.so.1 not found: was this container started with')


def test_nothing_is_left_running_when_it_is_killed(start):
    process = start('--timeout', '600', scenario={'calls': {'cuInit': {'hang': True}}})
    children = '/proc/%d/task/%d/children' % (process.pid, process.pid)
    deadline = time.monotonic() + DEADLINE
    child = ''
    while not child and time.monotonic() < deadline:
        with open(children, encoding='ascii') as file:
            child = file.read().strip()
    assert child, 'no child process'
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=DEADLINE)

    def is_alive():
        try:
            with open('/proc/%s/stat' % child, encoding='ascii') as file:
                return file.read().rsplit(')', 1)[1].split()[0] not in 'ZX'
        except (FileNotFoundError, ProcessLookupError):
            return False

    while is_alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(), 'the child is still there'


def test_watching_shows_what_neighbours_do(probe):
    done = probe('--json', '--watch', '2', '--no-memory')
    assert done.status == 0, done
    throughput = done.json['throughput']
    assert throughput['windows'] >= 2
    assert 0 < throughput['least'] <= throughput['median'] <= throughput['most']


def test_a_load_reports_the_work_done(probe):
    begin = time.time() + 4.0
    done = probe('--json', '--load', '2', '--begin-at', '%.3f' % begin)
    assert done.status == 0, done
    assert time.time() >= begin + 2.0
    load = done.json['load']
    assert load['gflop'] > 0 and 0 < load['seconds'] <= 2.0
    assert load['gflops'] == pytest.approx(load['gflop'] / load['seconds'], rel=1e-6)


def test_a_load_that_comes_too_late_says_so(probe):
    done = probe('--load', '1', '--begin-at', '1000000000')
    assert done.status == 3, done
    assert done.err == 'warpshare probe: --begin-at: the time was over before the GPU was ready\n'


def test_a_sweep_runs_each_kernel_in_each_grid(probe):
    begin = time.time() + 4.0
    done = probe('--json', '--sweep', '1', '--begin-at', '%.3f' % begin)
    assert done.status == 0, done
    assert time.time() >= begin + 9 * 1.0
    sweep = {(one['kernel'], one['grid']): one for one in done.json['sweep']}
    assert set(sweep) == {(kernel, grid) for kernel in ('compute', 'memory', 'launch') for grid in ('small', 'medium', 'large')}
    assert all(one['rate'] > 0 and one['launches'] > 0 for one in sweep.values()), sweep
    assert sweep['memory', 'large']['unit'] == 'GB/s' and sweep['launch', 'small']['unit'] == 'launches/s'


def test_a_fault_on_purpose_is_reported_as_the_driver_reports_it(probe):
    done = probe('--fault', '--json')
    assert done.status == 0, done
    assert done.json['fault'].startswith('cuCtxSynchronize: error 700, CUDA_ERROR_ILLEGAL_ADDRESS')


@pytest.mark.parametrize('arguments, words', [
    (('--memory', '0'), "--memory 0: must be a number of MiB, or 'all'"),
    (('--watch', 'long'), '--watch long: must be a number of seconds from 1 to 3600'),
    (('--device', '-1'), '--device -1: must be a number from 0 to 255'),
    (('--begin-at', 'soon'), '--begin-at soon: must be seconds since the epoch'),
    (('more',), "unexpected argument 'more'"), (('--nonsense',), "unknown flag '--nonsense'")])
def test_wrong_usage_is_refused(probe, arguments, words):
    done = probe(*arguments)
    assert done.status == 2 and words in done.err, done


def test_help_teaches(probe):
    done = probe('--help')
    assert done.status == 0 and not done.err
    for word in ('--watch', '--no-memory', 'CUDA_MPS_ACTIVE_THREAD_PERCENTAGE', 'exit status: 0'):
        assert word in done.out
