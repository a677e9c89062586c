#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A stand-in for `warpshare mig`, for what the real one does on demand only: hang, fail, ask for a reboot, and die half-way.

    PROGRAM mig plan|apply --config NAME --file FILE …

FILE has, for each configuration, the GPUs as the scenario of the simulator has them; the scenario is what it changes. A file `fault-plan`,
`fault-apply`, `fault-half` or `fault-resume` beside the scenario says what goes wrong: `hang`, `die`, `wait` as long as it is there, or a status and the text of the error. What was called stands in `calls`.
"""
import json
import os
import pathlib
import signal
import sys
import time

import yaml


def option(name):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else None


def devices(gpu):
    return {device['uuid']: device for device in gpu['mig'].get('devices', [])}


def plan(is_now, wanted):
    gpus = []
    for index, (before, after) in enumerate(zip(is_now, wanted)):
        old, new = devices(before), devices(after)
        mode = [gpu['mig']['enabled'] for gpu in (before, after)]
        gpus.append({
            'index': index, 'uuid': before['uuid'], 'named': True, 'changes': (mode[0], old) != (mode[1], new), 'problem': None,
            'mode': {'is': mode[0], 'wanted': mode[1], 'needs': 'nothing' if mode[0] == mode[1] else 'reset'},
            'stays': [{'uuids': [uuid], 'profile': old[uuid]['profile']} for uuid in old if old[uuid] == new.get(uuid)],
            'goes': [{'uuids': [uuid], 'profile': old[uuid]['profile']} for uuid in old if old[uuid] != new.get(uuid)], 'made': []})
    return gpus


def write(path, scenario):
    new = path.with_suffix('.mig')
    new.write_text(yaml.safe_dump(scenario, sort_keys=False), encoding='utf-8')
    new.rename(path)


def fault(folder, what):
    """As often as it is written in the file."""
    path = folder / ('fault-' + what)
    if not path.exists():
        return
    word, _, text = path.read_text(encoding='utf-8').partition(' ')
    while word == 'wait' and path.exists():
        time.sleep(0.02)
    if word == 'wait':
        return
    if word == 'hang':
        signal.pause()
    if word == 'die':
        os.kill(os.getpid(), signal.SIGKILL)
    print(text, file=sys.stderr)
    sys.exit(int(word))


def main():
    verb = sys.argv[2]
    path = pathlib.Path(os.environ['WARPSHARE_SIM_SCENARIO'])
    folder = path.parent
    resumes = '--resume' in sys.argv
    what = 'resume' if resumes else verb
    with open(folder / 'calls', 'a', encoding='utf-8') as file:
        print(what, option('--config') or '', file=file)
    with open(folder / 'pids', 'a', encoding='utf-8') as file:
        print(os.getpid(), file=file)
    fault(folder, what)
    if resumes:
        return
    scenario = yaml.safe_load(path.read_text(encoding='utf-8'))
    configurations = yaml.safe_load(pathlib.Path(option('--file')).read_text(encoding='utf-8'))
    if option('--config') not in configurations:
        print(json.dumps({'fits': False, 'reason': "there is no configuration '%s'" % option('--config')}))
        sys.exit(1)
    wanted = configurations[option('--config')]
    gpus = plan(scenario['gpus'], wanted)
    if verb == 'plan':
        print(json.dumps({'config': option('--config'), 'fits': True, 'changes': any(gpu['changes'] for gpu in gpus), 'gpus': gpus}))
        return
    half = [{**before, 'mig': {**before['mig'], 'devices': [device for uuid, device in devices(before).items() if device == devices(after).get(uuid)]}}
            for before, after in zip(scenario['gpus'], wanted)]
    write(path, {**scenario, 'gpus': half})
    fault(folder, 'half')
    write(path, {**scenario, 'gpus': wanted})


if __name__ == '__main__':
    main()
