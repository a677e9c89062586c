# SPDX-License-Identifier: Apache-2.0
"""warpshare doctor on MIG: what a change has left unfinished, modes that wait for a reset, and what the manager says by the node's label."""
import json
import os
import subprocess

import pytest
import yaml

from apiserver import ApiServer, agent_rules
from node import WARPSHARE
from test_doctor import SIMULATOR, expect, site  # noqa: F401 -- a fixture

NODES = '/api/v1/nodes'
H100 = {'model': 'H100-80GB', 'uuid': 'GPU-00000000-0000-4000-8000-000000000000', 'mig': {'devices': [{'profile': '1g.10gb', 'count': 7}]}}
A100 = {'model': 'A100-40GB', 'uuid': H100['uuid']}
TO_LARGE = {'config': 'large', 'fits': True, 'gpus': [{'uuid': H100['uuid'], 'changes': True, 'mode': {'needs': 'nothing'}, 'stays': []}]}


def start(site, gpu):
    site.scenario([gpu], geometryFile=site.path('geometry'))
    site.config({'version': 'v1', 'flags': {'migStrategy': 'mixed'}})


def leave_waiting(site):
    """A change that is complete only after a reboot."""
    start(site, A100)
    os.makedirs(site.path('root/proc/sys/kernel/random'))
    site.write('root/proc/sys/kernel/random/boot_id', '01234567-89ab-cdef-0123-456789abcdef\n')
    done = subprocess.run(
        [WARPSHARE, 'mig', 'apply', '--config', 'all-3g.20gb', '--mode-change', 'reboot', '--state-directory', site.path('mig'),
         '--nvml-library', SIMULATOR, '--system-root', site.path('root')], check=False, capture_output=True, text=True, timeout=60,
        env={**os.environ, 'WARPSHARE_SIM_SCENARIO': site.path('gpus.yaml')})
    assert done.returncode == 3, done.stderr


def test_a_geometry_that_nobody_manages_and_that_is_complete_is_ok(site):
    start(site, H100)
    expect(site, 'mig', 'no change is unfinished, and no label decides the geometry', 'ok')


def test_a_change_that_nobody_finishes_is_wrong_and_the_way_out_is_told(site):
    leave_waiting(site)
    findings = expect(site, 'mig', "a change to the MIG configuration 'all-3g.20gb' is unfinished, and may wait for a reboot")
    assert any('warpshare mig apply --resume' in finding.get('todo', '') for finding in findings), findings


def test_a_mode_that_waits_for_a_reset_is_named_with_its_gpu(site):
    leave_waiting(site)
    site.remove('mig')
    findings = expect(site, 'mig', 'GPU 0 (%s): MIG is to be enabled, and waits for a reset' % H100['uuid'])
    assert any('reboot the node' in finding.get('todo', '') for finding in findings), findings


def test_a_record_that_nobody_can_read_is_wrong(site):
    start(site, H100)
    site.write('mig/change.json', 'x', mode=0o600)
    expect(site, 'mig', 'the record of a change cannot be read: ')


def test_what_a_manager_that_is_gone_had_withdrawn_is_noted(site):
    start(site, H100)
    site.write('mig/manager.json', json.dumps(TO_LARGE), mode=0o600)
    expect(site, 'mig', "1 GPUs are withdrawn for the MIG configuration 'large'", 'note')


def test_gpus_that_cannot_be_read_are_no_finding_of_its_own(site):
    start(site, H100)
    site.scenario([H100], errors={'nvmlDeviceGetCount_v2': 'UNKNOWN'})
    expect(site, 'mig', 'the GPUs cannot be read', 'skipped', alone=False)


# ---- the label ----

@pytest.fixture
def managed(site, tmp_path):
    """The agent's account, and the node with labels and annotations as told."""
    start(site, H100)
    server = ApiServer(tmp_path)
    server.allow(agent_rules('mig'))
    site.arguments += ['--mig-manager', '--kubeconfig', server.kubeconfig(), '--node-name', 'n1']

    def put(config=None, state=None, reason=None):
        labels = {'nvidia.com/mig.config': config, 'nvidia.com/mig.config.state': state}
        server.put(NODES, {'apiVersion': 'v1', 'kind': 'Node', 'metadata': {
            'name': 'n1', 'labels': {key: value for key, value in labels.items() if value},
            'annotations': {'warpshare.dev/mig-config.reason': reason} if reason else {}}})
    yield put
    server.close()


def test_a_label_that_the_gpus_follow_is_ok(site, managed):
    managed('all-1g.10gb', 'success')
    expect(site, 'mig', "the GPUs have the MIG configuration 'all-1g.10gb'", 'ok')


def test_a_change_that_waits_is_noted_with_who_is_waited_for(site, managed):
    managed('all-7g.80gb', 'pending', 'team/train/main (MIG-1) has it')
    findings = expect(site, 'mig', "the MIG configuration 'all-7g.80gb' is pending: team/train/main (MIG-1) has it", 'note')
    assert any('nvidia.com/mig.config.drain=evict' in finding.get('todo', '') for finding in findings), findings


def test_a_change_that_failed_is_wrong_with_its_reason(site, managed):
    managed('all-9g', 'failed', 'it has no configuration of this name')
    expect(site, 'mig', "the MIG configuration 'all-9g' cannot be had: it has no configuration of this name")


def test_a_geometry_that_is_not_the_labels_is_wrong_and_it_is_told_how_it_differs(site, managed):
    managed('all-7g.80gb', 'success')
    expect(site, 'mig', "the GPUs do not have the MIG configuration 'all-7g.80gb': GPU 0 has 7 of 1g.10gb, wanted are 0")


def test_the_configurations_are_those_of_the_agents_file(site, managed):
    site.write('mig.yaml', yaml.safe_dump({'version': 'v1', 'mig-configs': {
        'seven': [{'devices': 'all', 'mig-enabled': True, 'mig-devices': {'1g.10gb': 7}}]}}))
    site.arguments += ['--mig-config-file', site.path('mig.yaml')]
    managed('seven', 'success')
    expect(site, 'mig', "the GPUs have the MIG configuration 'seven'", 'ok')
    managed('eight', 'success')
    expect(site, 'mig', "the MIG configuration 'eight' cannot be compared with the GPUs: ")


def test_a_label_that_nobody_answers_is_wrong_and_none_is_ok(site, managed):
    managed('all-1g.10gb')
    expect(site, 'mig', "no MIG manager says what became of the MIG configuration 'all-1g.10gb'")
    managed()
    expect(site, 'mig', 'the node has no label nvidia.com/mig.config', 'ok')
    site.arguments += ['--mig-default', 'all-7g.80gb']
    expect(site, 'mig', "no MIG manager says what became of the MIG configuration 'all-7g.80gb'")


def test_the_agent_finishes_what_is_unfinished_where_it_manages(site, managed):
    leave_waiting(site)
    managed('all-3g.20gb', 'failed', 'the node has to be rebooted to change the MIG mode')
    expect(site, 'mig', "a change to the MIG configuration 'all-3g.20gb' is under way", 'note', alone=False)
