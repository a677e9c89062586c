# SPDX-License-Identifier: Apache-2.0
"""For each alert: series with which it fires, and the near misses with which it does not. promtool evaluates them once a minute.

A case is (series, at, fired): values by series in promtool's notation, the time of the look, and for each alert that fires then its labels,
without the severity, and its description. The first case that fires has the first minute at which it does: where an alert has to last, it does
not fire a minute before.
"""
BUILD = {'up{job="agents",instance="10.0.0.1:9400",node="a"}': '1x300', 'warpshare_build_info{job="agents",node="a"}': '1x300'}
UNIT = 'resource="nvidia.com/gpu",unit="GPU-1",index="0"'
DAEMON = 'daemon="GPU-1",resource="nvidia.com/gpu"'
ON_DAEMON = {'node': 'a', 'daemon': 'GPU-1', 'resource': 'nvidia.com/gpu'}


def healthy(values):
    return {'warpshare_unit_healthy{job="agents",node="a",%s}' % UNIT: values}


def violation(kind, values, pod='namespace="team",pod="train",'):
    return {'warpshare_limit_violations{node="a",%skind="%s",daemon="GPU-1",unit="GPU-1",pid="7"}' % (pod, kind): values}


def state(name, values):
    return {'warpshare_mps_daemon_state{node="a",%s,state="%s"}' % (DAEMON, name): values}


def shm(size='100x20', used='10x20', files_max='0x20', files='5x20', daemon=''):
    labels = 'node="a"' + daemon
    return {f'warpshare_mps_shared_memory_size_bytes{{{labels}}}': size, f'warpshare_mps_shared_memory_used_bytes{{{labels}}}': used,
            f'warpshare_mps_shared_memory_files_max{{{labels}}}': files_max, f'warpshare_mps_shared_memory_files{{{labels}}}': files}


def devices(**counts):
    return {'warpshare_resource_devices{node="a",resource="nvidia.com/gpu",health="%s"}' % health: f'{count}x90'
            for health, count in counts.items()}


def xid(number, times):
    """Its time, in seconds, which are minutes of promtool's times 60."""
    return {'warpshare_gpu_xid_last_timestamp_seconds{node="a",gpu="GPU-1",index="0",xid="%d"}' % number: times}


def gpu(name, values, more=''):
    return {'warpshare_gpu_%s{node="a",gpu="GPU-1",index="0"%s}' % (name, more): values}


def had(number, more=''):
    return [({**GPU, 'xid': str(number)}, f'GPU 0 (GPU-1) on node a had Xid {number} 5m 0s ago{more}.')]


def container(**families):
    """Of pod team/train, and of another one on the node that the agent sees, too."""
    return {**{'warpshare_container_%s{node="a",share="train"}' % name: values for name, values in families.items()},
            'warpshare_container_info{node="a",share="train",unit="GPU-1",namespace="team",pod="train",container="main"}': '1x200',
            'warpshare_container_info{node="a",share="seen",unit="GPU-2",namespace="team",pod="seen"}': '1x200',
            'warpshare_container_gpu_seconds_total{node="a",share="seen"}': '7+60x200'}


def mig(config='all-1g.10gb', **states):
    return {f'warpshare_mig_config_state{{node="a",config="{config}",state="{name}"}}': values for name, values in states.items()}


OF_MIG = {'node': 'a', 'config': 'all-1g.10gb'}
IS_NOT_HAD = 'Node a cannot have its MIG configuration all-1g.10gb. The GPUs have the geometry that they had.'
GPU = {'node': 'a', 'gpu': 'GPU-1', 'index': '0'}
CONTAINER = {'node': 'a', 'unit': 'GPU-1', 'namespace': 'team', 'pod': 'train', 'container': 'main'}
IDLE = 'Pod team/train has a share of unit GPU-1 on node a, and %s for an hour.'
ON_NODE = {'node': 'a'}
LOST = {'node': 'a', 'unit': 'GPU-1', 'index': '0'}
IS_LOST = 'Node a had GPU 0 (GPU-1) within the last hour, and has not reported it for 10 minutes.'
IS_AT_FAULT = 'MPS control daemon GPU-1 (nvidia.com/gpu) on node a is at fault and has not been ready for 2 minutes. Its units get no new pod, ' \
    'and work on them has ended or will.'
VIOLATED = {'node': 'a', 'namespace': 'team', 'pod': 'train', 'unit': 'GPU-1'}
FEATURES = 'warpshare_resource_units{node="a",resource="nvidia.com/gpu",strategy="%s"}'

CASES = {
    'WarpshareAgentAway': [
        ({'up{job="agents",instance="10.0.0.1:9400",node="a"}': '1x10 0x20', 'warpshare_build_info{job="agents",node="a"}': '1x10 _x20'}, '16m',
         [({'node': 'a', 'job': 'agents', 'instance': '10.0.0.1:9400'},
           'The agent on node a (10.0.0.1:9400) has not answered Prometheus for 5 minutes. Containers keep their GPUs; no new pod gets one '
           'while the agent is away.')]),
        # Not for five minutes yet; a node that left, with its target; the target of another program.
        ({'up{job="agents",node="a"}': '1x10 0x20', 'warpshare_build_info{job="agents",node="a"}': '1x10 _x20'}, '15m', []),
        ({'up{job="agents",node="a"}': '1x10 stale', 'warpshare_build_info{job="agents",node="a"}': '1x10 stale'}, '30m', []),
        ({**BUILD, 'up{job="others",node="a"}': '0x30'}, '30m', []),
    ],
    'WarpshareAgentCrashes': [
        ({'warpshare_agent_crashes_total{node="a"}': '0x30 2x60'}, '40m', [
            (ON_NODE, 'A signal ended the agent on node a 2 times within the last hour; its parent started it again.')]),
        ({'warpshare_agent_crashes_total{node="a"}': '2x60'}, '40m', []),
        ({'warpshare_agent_crashes_total{node="a"}': '0x5 2x90'}, '80m', []),
    ],
    'WarpshareConfigRefused': [
        ({'warpshare_config_status{node="a",status="refused"}': '0 1x9', 'warpshare_config_status{node="a",status="accepted"}': '1 0x9'}, '6m', [
            (ON_NODE, 'Node a refuses the newest configuration; the last good one stays in force.')]),
        ({'warpshare_config_status{node="a",status="refused"}': '0 1x9'}, '4m', []),
        ({'warpshare_config_status{node="a",status="waiting"}': '1x9', 'warpshare_config_status{node="a",status="refused"}': '0x9'}, '8m', []),
    ],
    'WarpshareChangePending': [
        ({'warpshare_change_pending_devices{node="a",resource="nvidia.com/gpu",unit="GPU-1",from="none",to="mps"}': '3x1500'}, '1440m', [
            ({'node': 'a', 'resource': 'nvidia.com/gpu', 'unit': 'GPU-1'},
             'Containers on node a have held 3 devices of nvidia.com/gpu (unit GPU-1) under an earlier configuration for a day; the change '
             'waits for them.')]),
        ({'warpshare_change_pending_devices{node="a",resource="nvidia.com/gpu",unit="GPU-1",from="none",to="mps"}': '3x1400 0x90'}, '1441m', []),
    ],
    'WarpshareMIGChangePending': [
        (mig(pending='1x90'), '60m', [
            (OF_MIG, 'Node a has not had its MIG configuration all-1g.10gb for an hour, since somebody holds what has to end, or has a GPU opened. '
                     'No new pod gets that meanwhile.')]),
        (mig(pending='1x50 0x60', success='0x50 1x60'), '90m', []),
        # The label has got another value meanwhile.
        ({**mig(pending='1x50 stale'), **mig('large', pending='_x51 1x60')}, '90m', []),
    ],
    'WarpshareMIGChangeFailed': [
        (mig(failed='1x30'), '10m', [(OF_MIG, IS_NOT_HAD)]),
        # It is tried again, and is pending for five minutes each time.
        (mig(failed='1x3 0x5 1x9 0x5 1x9', pending='0x3 1x5 0x9 1x5 0x9'), '10m', [(OF_MIG, IS_NOT_HAD)]),
        (mig(failed='1x9 0x20', success='0x9 1x20'), '12m', []),
        (mig(failed='1 0x30', pending='0 1x30'), '15m', []),
    ],
    'WarpshareEventsDropped': [
        ({'warpshare_events_dropped_total{node="a"}': '0+2x60'}, '16m', [
            (ON_NODE, 'The agent on node a dropped 30 Kubernetes events within 15 minutes.')]),
        ({'warpshare_events_dropped_total{node="a"}': '0x5 40x60'}, '40m', []),
    ],
    'WarpshareMetricsDropped': [
        ({'warpshare_exposition_dropped_samples{node="a"}': '7x20'}, '15m', [
            (ON_NODE, '7 samples of node a do not fit on the page of metrics. Alerts about them cannot fire.')]),
        ({'warpshare_exposition_dropped_samples{node="a"}': '7x10 0x10'}, '16m', []),
    ],
    'WarpshareGPUUnhealthy': [
        (healthy('1 0x9'), '3m', [
            ({'node': 'a', 'resource': 'nvidia.com/gpu', 'unit': 'GPU-1', 'index': '0'},
             'Unit 0 (GPU-1) of nvidia.com/gpu on node a has been unhealthy for 2 minutes. It gets no new pod.')]),
        (healthy('1 0 0 1x9'), '4m', []),
    ],
    'WarpshareGPULost': [
        ({**BUILD, **healthy('1x10 stale')}, '21m', [(LOST, IS_LOST)]),
        # The agent was replaced meanwhile: its generations are another series.
        ({**BUILD, **healthy('1x10 stale'), 'warpshare_config_generation{node="a",instance="b"}': '_x11 1x20',
          'warpshare_config_generation{node="a",instance="a"}': '7x10 stale'}, '22m', [(LOST, IS_LOST)]),
        ({**BUILD, **healthy('1x10 stale')}, '19m', []),
        # It is unhealthy, and there; a MIG device; another configuration; no agent that could report it; more than an hour ago.
        ({**BUILD, **healthy('1x10 0x20')}, '25m', []),
        ({**BUILD, 'warpshare_unit_healthy{node="a",unit="MIG-1",index="0:0"}': '1x10 stale'}, '25m', []),
        ({**BUILD, **healthy('1x10 stale'), 'warpshare_config_generation{node="a"}': '1x10 2x20'}, '25m', []),
        (healthy('1x10 stale'), '25m', []),
        ({**BUILD, **healthy('1x10 stale')}, '90m', []),
    ],
    'WarpshareNVMLHangs': [
        ({'warpshare_nvml_call_hanging_seconds{node="a",call="nvmlDeviceGetMemoryInfo",gpu="GPU-1",index="0"}': '10+60x9'}, '1m', [
            ({'node': 'a', 'call': 'nvmlDeviceGetMemoryInfo', 'gpu': 'GPU-1', 'index': '0'},
             'nvmlDeviceGetMemoryInfo about GPU GPU-1 on node a has not returned for 1m 10s.')]),
        ({'warpshare_nvml_call_hanging_seconds{node="a",call="nvmlInit_v2"}': '10+60x9'}, '2m', [
            ({'node': 'a', 'call': 'nvmlInit_v2'}, 'nvmlInit_v2 on node a has not returned for 2m 10s.')]),
        ({'warpshare_nvml_call_hanging_seconds{node="a",call="nvmlInit_v2"}': '10 stale'}, '2m', []),
    ],
    'WarpshareHealthEventsFail': [
        ({'warpshare_health_event_failures_total{node="a"}': '0x9 9x10'}, '12m', [
            (ON_NODE, 'The agent on node a failed 9 times within 10 minutes to wait for the driver\'s health events. It may miss Xids.')]),
        ({'warpshare_health_event_failures_total{node="a"}': '0x9 2x10'}, '12m', []),  # a GPU was lost
        ({'warpshare_health_event_failures_total{node="a"}': '0x9 5x10'}, '12m', []),
    ],
    'WarpshareXidReset': [
        (xid(79, '_x14 600x60'), '15m', had(79)),
        (xid(79, '_x14 600x60'), '20m', []),
        (xid(31, '_x14 600x60'), '15m', []),
        (xid(94, '_x14 600x60'), '15m', []),
    ],
    'WarpshareXidRestart': [
        (xid(94, '_x14 600x60'), '15m', had(94)),
        (xid(1023, '_x14 600x60'), '15m', had(1023)),  # nobody knows it
        (xid(94, '_x14 600x60'), '20m', []),
        ({**xid(79, '_x14 600x60'), **xid(31, '_x14 600x60'), **xid(63, '_x14 600x60')}, '15m', []),
    ],
    'WarpshareXidApplication': [
        (xid(31, '_x14 600x60'), '15m', had(31, ', which a program causes')),
        ({**xid(79, '_x14 600x60'), **xid(94, '_x14 600x60')}, '15m', []),
        (xid(31, '_x14 600x60'), '20m', []),
    ],
    'WarpshareECCUncorrected': [
        (gpu('ecc_errors_total', '4x30 6x60', ',type="uncorrected"'), '40m', [
            (GPU, 'GPU 0 (GPU-1) on node a had 2 memory errors within an hour that could not be corrected.')]),
        (gpu('ecc_errors_total', '4x90', ',type="uncorrected"'), '40m', []),
        (gpu('ecc_errors_total', '4+9x90', ',type="corrected"'), '40m', []),
    ],
    'WarpshareRowRemapPending': [
        (gpu('row_remap_pending', '1x9'), '5m', [(GPU, 'GPU 0 (GPU-1) on node a remaps a row of its memory at its next reset.')]),
        (gpu('row_remap_pending', '1x3 0x9'), '6m', []),
    ],
    'WarpshareRowRemapFailed': [
        (gpu('row_remap_failed', '1x9'), '5m', [(GPU, 'GPU 0 (GPU-1) on node a has a defective row of memory and no spare one.')]),
        ({**gpu('row_remap_failed', '0x9'), **gpu('row_remap_pending', '1x9')}, '6m', []),
    ],
    'WarpshareGPUTooHot': [
        (gpu('throttled_seconds_total', '0+30x60', ',reason="thermal"'), '13m', [
            (GPU, 'The clocks of GPU 0 (GPU-1) on node a were lowered for 50% of the last 10 minutes because of its temperature.')]),
        (gpu('throttled_seconds_total', '0+6x60', ',reason="thermal"'), '30m', []),
        (gpu('throttled_seconds_total', '0+30x60', ',reason="power"'), '30m', []),
    ],
    'WarpshareMPSSupervisorAway': [
        ({'warpshare_mps_supervisor_up{node="a"}': '0x9', FEATURES % 'mps': '2x9'}, '5m', [
            (ON_NODE, 'GPUs of node a are shared by MPS, and no `warpshare mps` has answered the agent for 5 minutes. Shares by MPS get no new '
                      'pod.')]),
        ({'warpshare_mps_supervisor_up{node="a"}': '0x9', 'warpshare_dra_devices{node="a",kind="shared"}': '4x9'}, '6m', [
            (ON_NODE, 'GPUs of node a are shared by MPS, and no `warpshare mps` has answered the agent for 5 minutes. Shares by MPS get no new '
                      'pod.')]),
        ({'warpshare_mps_supervisor_up{node="a"}': '0x9', FEATURES % 'time-slicing': '2x9', FEATURES % 'mps': '0x9',
          'warpshare_dra_devices{node="a",kind="shared"}': '0x9', 'warpshare_dra_devices{node="a",kind="whole"}': '4x9'}, '6m', []),
        ({'warpshare_mps_supervisor_up{node="a"}': '0x3 1x9', FEATURES % 'mps': '2x9'}, '6m', []),
    ],
    'WarpshareMPSDaemonFault': [
        # Each repair fails.
        ({**state('fault', '0x3 1 0 1 0 1x9'), **state('ready', '1x3 0x20')}, '7m', [(ON_DAEMON, IS_AT_FAULT)]),
        ({**state('fault', '1x9'), **state('ready', '0x9')}, '1m', [(ON_DAEMON, IS_AT_FAULT)]),  # it never was ready
        ({**state('fault', '0x3 1 0x9'), **state('ready', '1x3 0 1x9')}, '4m', []),
        ({**state('fault', '0x3 1x9'), **state('ready', '1x3 0x9')}, '5m', []),
        ({**state('draining', '1x9'), **state('ready', '0x9'), **state('fault', '0x9')}, '8m', []),
    ],
    'WarpshareMPSDaemonNotReady': [
        ({**state('starting', '1x8 0x9'), **state('configuring', '0x8 1x9')}, '10m', [
            (ON_DAEMON, 'MPS control daemon GPU-1 (nvidia.com/gpu) on node a has been starting for 10 minutes.')]),
        ({**state('starting', '1x8 0x9'), **state('ready', '0x8 1x9')}, '12m', []),
    ],
    'WarpshareMPSRepairs': [
        # The kinds of fault are added up.
        ({'warpshare_mps_faults_total{node="a",%s,unit="GPU-1",kind="gone"}' % DAEMON: '0x10 2x60',
          'warpshare_mps_faults_total{node="a",%s,unit="GPU-1",kind="server"}' % DAEMON: '0x10 1x60'}, '61m', [
            (ON_DAEMON, 'MPS control daemon GPU-1 (nvidia.com/gpu) on node a had 3 faults within an hour. With each, all pods of its units lost '
                        'their work on the GPU.')]),
        ({'warpshare_mps_faults_total{node="a",%s,unit="GPU-1",kind="gone"}' % DAEMON: '0x10 2x60'}, '61m', []),
    ],
    'WarpshareMPSSettingsChanged': [
        ({'warpshare_mps_daemon_settings_restored_total{node="a",%s}' % DAEMON: '0x10 1x20'}, '16m', [
            (ON_DAEMON, 'Limits of MPS control daemon GPU-1 (nvidia.com/gpu) on node a were changed and restored 1 times within 15 minutes.')]),
        ({'warpshare_mps_daemon_settings_restored_total{node="a",%s}' % DAEMON: '1x20'}, '16m', []),
    ],
    'WarpshareMPSLimitsMissing': [
        ({'warpshare_mps_container_limits{node="a",%s,state="missing"}' % DAEMON: '2x9'}, '5m', [
            (ON_DAEMON, '2 containers of MPS control daemon GPU-1 on node a should have a memory limit by the driver, and have had none for 5 '
                        'minutes.')]),
        ({'warpshare_mps_container_limits{node="a",%s,state="missing"}' % DAEMON: '2x3 0x9',
          'warpshare_mps_container_limits{node="a",%s,state="in_force"}' % DAEMON: '2x9'}, '6m', []),
    ],
    'WarpshareMPSClientsFull': [
        ({'warpshare_mps_unit_clients{node="a",%s,unit="GPU-1"}' % DAEMON: '45x9',
          'warpshare_mps_unit_max_clients{node="a",%s,unit="GPU-1"}' % DAEMON: '48x9'}, '5m', [
            ({'node': 'a', 'daemon': 'GPU-1', 'unit': 'GPU-1'},
             'Unit GPU-1 on node a has 93.75% of the MPS clients that it takes. Programs beyond fail with CUDA error 808.')]),
        ({'warpshare_mps_unit_clients{node="a",%s,unit="GPU-1"}' % DAEMON: '54x9',
          'warpshare_mps_unit_max_clients{node="a",%s,unit="GPU-1"}' % DAEMON: '60x9'}, '6m', []),
        ({'warpshare_mps_unit_clients{node="a",%s,unit="GPU-1"}' % DAEMON: '1x9',
          'warpshare_mps_unit_max_clients{node="a",%s,unit="GPU-1"}' % DAEMON: '0x9'}, '6m', []),  # nobody knows how many
    ],
    'WarpshareMPSSharedMemoryFull': [
        (shm(used='81x20', daemon=',daemon="GPU-1"'), '5m', [
            ({'node': 'a', 'daemon': 'GPU-1'}, '/dev/shm of MPS on node a (daemon GPU-1) is 81% full. When it is full, new clients fail.')]),
        (shm(files_max='10x20', files='9x20'), '6m', [
            (ON_NODE, '/dev/shm of MPS on node a is 90% full. When it is full, new clients fail.')]),
        (shm(used='80x20', files_max='10x20', files='8x20'), '6m', []),
        (shm(files='900x20'), '6m', []),  # as many as one likes
        (shm(size='0x20'), '6m', []),  # nobody knows
    ],
    'WarpshareLimitViolated': [
        (violation('memory', '1x9'), '1m', [
            ({**VIOLATED, 'kind': 'memory'}, '1 processes of pod team/train have more of unit GPU-1 on node a than was allocated (memory).')]),
        (violation('unallocated', '2x9'), '2m', [
            ({**VIOLATED, 'kind': 'unallocated'},
             '2 processes of pod team/train have more of unit GPU-1 on node a than was allocated (unallocated).')]),
        (violation('memory', '1 stale'), '2m', []),
        (violation('memory', '0x9'), '2m', []),
        (violation('limit', '1x9'), '2m', []),
    ],
    'WarpshareLimitDoubtful': [
        (violation('limit', '1x30'), '15m', [
            ({**VIOLATED, 'kind': 'limit'},
             '1 processes of pod team/train on unit GPU-1 of node a have been in doubt for 15 minutes (limit).')]),
        (violation('variable', '3x30', pod=''), '16m', [
            ({'node': 'a', 'unit': 'GPU-1', 'kind': 'variable'},
             '3 processes on unit GPU-1 of node a have been in doubt for 15 minutes (variable).')]),
        (violation('limit', '1x9 0x9'), '16m', []),
        (violation('memory', '1x30'), '16m', []),
    ],
    'WarpshareMPSClientUnknown': [
        ({'warpshare_mps_unknown_clients{node="a",daemon="GPU-1",unit="GPU-1",pid="7"}': '2x30'}, '15m', [
            ({'node': 'a', 'unit': 'GPU-1'}, '2 MPS clients on unit GPU-1 of node a have had no known owner for 15 minutes.')]),
        ({'warpshare_mps_unknown_clients{node="a",daemon="GPU-1",unit="GPU-1",pid="7"}': '2x9 0x9'}, '16m', []),
    ],
    'WarpshareClientTerminated': [
        ({'warpshare_mps_clients_terminated_total{node="a"}': '0x10 1x20'}, '16m', [
            (ON_NODE, 'The limit monitor on node a terminated 1 MPS clients within 15 minutes, since their containers had more than their '
                      'shares.')]),
        ({'warpshare_mps_clients_terminated_total{node="a"}': '1x20'}, '16m', []),
    ],
    'WarpshareShareIdle': [
        (container(gpu_seconds_total='0+60x150', sm_seconds_total='5x150', sm_ratio='0x150'), '61m', [
            (CONTAINER, IDLE % 'its processes there computed nothing')]),
        (container(gpu_seconds_total='0x150'), '72m', [(CONTAINER, IDLE % 'had no process there')]),
        # Its process ended more than an hour ago; the counter begins anew after ten minutes without one.
        (container(gpu_seconds_total='60+60x9 600x10 0x150'), '85m', [(CONTAINER, IDLE % 'had no process there')]),
        # A moment of activity; a moment with a process; not for an hour yet.
        (container(gpu_seconds_total='0+60x150', sm_seconds_total='5x40 6x150', sm_ratio='0x150'), '72m', []),
        (container(gpu_seconds_total='0x40 5x150'), '72m', []),
        (container(gpu_seconds_total='0x150'), '60m', []),
        # The driver does not say what a process does: never, or no more, so that the counter stands still.
        (container(gpu_seconds_total='0+60x150'), '72m', []),
        (container(gpu_seconds_total='0+60x150', sm_seconds_total='5x150'), '72m', []),
        # An agent that sees no processes of others has never seen one.
        ({'warpshare_container_info{node="a",share="t",unit="GPU-1",namespace="team",pod="train"}': '1x150',
          'warpshare_container_gpu_seconds_total{node="a",share="t"}': '0x150'}, '72m', []),
        # While an agent takes over from another, both have a page, and not the same names on it.
        ({'warpshare_container_info{node="a",instance="1",share="t",unit="GPU-1",namespace="team",pod="train"}': '1x150',
          'warpshare_container_info{node="a",instance="2",share="t",unit="GPU-1",pod_uid="u"}': '1x150',
          'warpshare_container_gpu_seconds_total{node="a",instance="1",share="t"}': '0+60x150',
          'warpshare_container_gpu_seconds_total{node="a",instance="2",share="t"}': '0+60x150'}, '72m', []),
    ],
    'WarpshareShareTooSmall': [
        (container(memory_used_bytes='97x20', memory_limit_bytes='100x20'), '15m', [
            (CONTAINER, 'Pod team/train has used more than 95 % of its memory of unit GPU-1 on node a for 15 minutes, 97% now.')]),
        ({'warpshare_container_info{node="a",share="c",unit="GPU-1",claim="small",pod_uid="u"}': '1x20',
          'warpshare_container_memory_used_bytes{node="a",share="c"}': '98x20',
          'warpshare_container_memory_limit_bytes{node="a",share="c"}': '100x20'}, '16m', [
            ({'node': 'a', 'unit': 'GPU-1', 'claim': 'small'},
             'Claim small has used more than 95 % of its memory of unit GPU-1 on node a for 15 minutes, 98% now.')]),
        (container(memory_used_bytes='95x20', memory_limit_bytes='100x20'), '16m', []),
        (container(memory_used_bytes='99x9 50x20', memory_limit_bytes='100x20'), '16m', []),
        (container(memory_used_bytes='99x20'), '16m', []),  # no limit
    ],
    'WarpshareReserveAboveThird': [
        (devices(healthy=60, reserved=30, unhealthy=0), '61m', []),
        (devices(healthy=52, reserved=28, unhealthy=0), '60m', [
            ({'node': 'a', 'resource': 'nvidia.com/gpu'},
             'Node a has reserved 35% of the replicas of nvidia.com/gpu for an hour; the scheduler cannot give them to pods.')]),
        (devices(healthy=20, reserved=0, unhealthy=60), '61m', []),
        (devices(healthy=52, reserved=28, unhealthy=0), '59m', []),
    ],
    'WarpshareDRANotRegistered': [
        ({'warpshare_dra_registered{node="a"}': '0x9'}, '5m', [
            (ON_NODE, 'kubelet on node a has not accepted the DRA driver for 5 minutes. No pod with a claim starts there.')]),
        # Two agents for a moment, of which one serves.
        ({'warpshare_dra_registered{node="a",instance="a"}': '0x9', 'warpshare_dra_registered{node="a",instance="b"}': '1x9'}, '6m', []),
    ],
    'WarpshareDRASlicesNotReady': [
        ({'warpshare_dra_slices_ready{node="a"}': '0x20'}, '10m', [
            (ON_NODE, 'The ResourceSlices of node a have not been as they should be for 10 minutes. The scheduler counts with older ones, or '
                      'with none.')]),
        ({'warpshare_dra_slices_ready{node="a"}': '0x8 1x20'}, '11m', []),
    ],
    'WarpshareDRAClaimsRefused': [
        ({'warpshare_dra_calls_total{node="a",call="prepare",outcome="refused"}': '0+1x60'}, '19m', [
            ({'node': 'a', 'call': 'prepare'}, 'The DRA driver on node a has refused to prepare claims 15 times within 15 minutes.')]),
        ({'warpshare_dra_calls_total{node="a",call="prepare",outcome="refused"}': '0x20 9x60'}, '40m', []),
        ({'warpshare_dra_calls_total{node="a",call="prepare",outcome="done"}': '0+9x60'}, '40m', []),
    ],
}
