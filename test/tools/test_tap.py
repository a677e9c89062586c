# SPDX-License-Identifier: Apache-2.0
"""test/unit/tap, which runs each test: what it lets through of the host."""
import os
import pathlib
import subprocess

TAP = pathlib.Path(os.environ['WARPSHARE_SOURCE'], 'test/unit/tap')


def run(script, **variables):
    return subprocess.run([TAP, 'sh', '-c', script], env={'PATH': os.environ['PATH'], **variables}, capture_output=True, text=True,
                          check=False, umask=0o077, timeout=60)


def test_options_of_the_host_are_no_options_of_a_test():
    said = run('env', KUBECONFIG='/a', NODE_NAME='b', CUDA_VISIBLE_DEVICES='1', COLUMNS='40', GIT_DIR='/c', TZ='UTC-14', http_proxy='http://d',
               WARPSHARE_SEED='5', WARPSHARE_DRA='true').stdout
    names = {line.split('=', 1)[0] for line in said.splitlines()} - {'PWD', 'OLDPWD', '_', 'SHLVL'}
    assert names == {'PATH', 'TZ', 'WARPSHARE_SEED', 'http_proxy', 'no_proxy', 'NO_PROXY'}
    assert '127.0.0.1' in said


def test_the_way_to_a_real_cluster_stays():
    assert 'AWS_PROFILE=a' in run('env', AWS_PROFILE='a', WARPSHARE_CLUSTER_KUBECONFIG='/b').stdout


def test_what_a_test_makes_others_can_read():
    assert run('umask').stdout == '0022\n'


def test_a_skip_of_cmockas_is_one_and_the_status_stays():
    done = run("echo 'not ok 4 # SKIP a'; echo 'not ok 5 - b'; exit 3", CMOCKA_MESSAGE_OUTPUT='TAP')
    assert (done.returncode, done.stdout) == (3, 'ok 4 # SKIP a\nnot ok 5 - b\n')
