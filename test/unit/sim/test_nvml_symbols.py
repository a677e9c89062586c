# SPDX-License-Identifier: Apache-2.0
"""Every NVML function that our loader asks for or the simulator has is one that a real library exports."""
import os
import re

SOURCE = os.environ['WARPSHARE_SOURCE']
RELEASES = ('nvml-symbols-590.48.01.txt', 'nvml-symbols-610.57.04.txt')
FUNCTION = re.compile(r'\bnvml[A-Z]\w*')

# Newer than both recorded libraries: they came with driver 615.
NEWER = {'nvmlDeviceGetMemoryLimits_v1', 'nvmlDeviceSetMemoryLimits_v1'}


def read(*names):
    with open(os.path.join(SOURCE, *names)) as file:
        return file.read()


def recorded(release):
    return set(read('test', 'fixtures', 'recorded', 'gpu', release).split())


def missing(names, release):
    return sorted(names - recorded(release) - NEWER)


def test_the_recorded_lists_are_lists_of_functions():
    for release in RELEASES:
        assert len(recorded(release)) > 400 and all(FUNCTION.fullmatch(name) for name in recorded(release))
    assert recorded(RELEASES[0]) < recorded(RELEASES[1])


def test_what_the_loader_asks_for_is_there():
    names = set(re.findall(r'"(nvml[A-Z]\w*)"', read('src', 'gpu', 'nvml.h')))
    assert len(names) > 50
    assert [missing(names, release) for release in RELEASES] == [[], []]


def test_what_the_simulator_has_is_there():
    names = set(re.findall(r'CALL\((nvml[A-Z]\w*)', read('sim', 'nvml', 'calls.h')))
    names |= set(FUNCTION.findall(read('sim', 'nvml', 'absent.h')))
    assert len(names) > 100
    assert [missing(names, release) for release in RELEASES] == [[], []]


def test_what_is_known_to_be_newer_is_in_no_recorded_library():
    for release in RELEASES:
        assert not NEWER & recorded(release)
