# SPDX-License-Identifier: Apache-2.0
"""What a repository has for those who come to it: workflows that can do no more than they need, roles that have one name each."""
import glob
import os
import re
import subprocess

import pytest
import yaml

SOURCE = os.environ['WARPSHARE_SOURCE']
WORKFLOWS = sorted(glob.glob(os.path.join(SOURCE, '.github/workflows/*.yml')))


def read(path):
    with open(os.path.join(SOURCE, path), encoding='utf-8') as file:
        return file.read()


def test_there_are_the_workflows_that_are_spoken_of():
    assert [os.path.basename(path) for path in WORKFLOWS] == ['ci.yml', 'scorecard.yml']


@pytest.mark.parametrize('path', WORKFLOWS, ids=os.path.basename)
def test_a_workflow_may_only_read_and_uses_what_cannot_change(path):
    workflow = yaml.safe_load(read(path))
    assert workflow['permissions'] == {}  # of jobs that name none
    for job in workflow['jobs'].values():
        assert set(job['permissions'].values()) <= {'read'} and job['timeout-minutes'] <= 360
        assert re.fullmatch(r'.*@sha256:[0-9a-f]{64}', job.get('container', 'none@sha256:' + '0' * 64))
        for step in job['steps']:
            assert re.fullmatch(r'[\w-]+/[\w-]+@[0-9a-f]{40}', step.get('uses', 'a/b@' + '0' * 40)), step
            assert 'github.event' not in step.get('run', '')  # whose text is a stranger's
            if step.get('uses', '').startswith('actions/checkout@'):
                assert step['with']['persist-credentials'] is False


def test_each_action_has_one_commit_and_its_version_beside_it():
    pinned = {}
    for path in WORKFLOWS:
        for name, commit, version in re.findall(r'uses: (\S+)@(\w+)(?: # (v[\d.]+))?', read(path)):
            assert version, (path, name)
            assert pinned.setdefault(name, (commit, version)) == (commit, version), name
    assert {'actions/checkout', 'ossf/scorecard-action'} <= pinned.keys()


def test_the_check_of_a_change_is_the_one_of_anywhere_else_on_the_base_of_the_image():
    job = yaml.safe_load(read('.github/workflows/ci.yml'))['jobs']['check']
    base, = re.findall(r'^ARG BASE=(.+)$', read('deploy/container/Dockerfile'), re.MULTILINE)
    assert job['container'] == base
    commands = [step['run'] for step in job['steps'] if 'run' in step]
    assert commands[-2:] == ['scripts/bootstrap', '.ci/run']


def test_each_role_that_a_page_names_is_one_of_the_maintainers():
    roles = set(re.findall(r'^\| ([a-z -]+(?:maintainer|contact)) \|', read('MAINTAINERS.md'), re.MULTILINE))
    owners = {line.split(None, 2)[2] for line in read('.github/CODEOWNERS').splitlines() if re.match(r'# [*/]', line)}
    assert len(roles) == 4 and owners == roles


def test_the_paths_of_the_owners_are_there():
    for path in re.findall(r'^# (/\S+)', read('.github/CODEOWNERS'), re.MULTILINE):
        assert os.path.exists(SOURCE + path), path


def test_the_page_of_the_parts_of_others_is_what_the_list_of_packages_makes():
    made = subprocess.run([os.path.join(SOURCE, 'deploy/container/sbom'), '--third-party'], capture_output=True, text=True, timeout=60, check=True)
    assert read('THIRD-PARTY.md') == made.stdout, 'run: deploy/container/sbom --third-party >THIRD-PARTY.md'
    assert '\n| libuv1-dev | MIT |' in made.stdout
