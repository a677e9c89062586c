"""`warpshare mps` on this machine's GPU: its daemon's limits are in force, it is repaired, it ends nobody by mistake."""
import os
import signal
import time

from hardware import CONTEXT_MIB, SM_TOLERANCE, Result, say
from hardware import hardware  # noqa: F401 -- a fixture
from supervisor import supervisor  # noqa: F401


def is_ready(daemon):
    return daemon['state'] == 'ready'


def test_limits_that_were_applied_are_in_force(hardware, supervisor):
    limit = hardware.facts['memory']['totalMib'] // 5
    supervisor.apply(300, limit)
    daemon = supervisor.wait(is_ready, 'ready')
    say('applied', threads_permille=daemon.get('threadsPermille'), limit_mib=daemon.get('limitMib'), tier=daemon.get('tier'))
    # The control daemon shows whole GiB only, rounded down, from one GiB on.
    assert daemon['threadsPermille'] == 300 and daemon['limitMib'] in (limit, limit >> 10 << 10), daemon
    done = hardware.probe('--memory', str(limit + 64), daemon=supervisor)
    sms = done.json['multiprocessors']['told']
    say('client', allocated=done.json['memory']['allocatedMib'], sms=sms)
    assert limit - CONTEXT_MIB <= done.json['memory']['allocatedMib'] <= limit, done
    assert abs(sms - hardware.facts['multiprocessors']['told'] * 3 // 10) <= SM_TOLERANCE, done


def test_what_is_in_force_for_a_client_is_reported(hardware, supervisor):
    limit = hardware.facts['memory']['totalMib'] // 5
    supervisor.apply(300, limit)
    supervisor.wait(is_ready, 'ready')
    load = hardware.start('--load', '20', daemon=supervisor)
    daemon = supervisor.wait(lambda daemon: daemon.get('clients') and daemon['clients'][0].get('limitMib'),
                             'a client with its limits')
    say('client as reported', **daemon['clients'][0])
    client = daemon['clients'][0]
    assert Result(load).status == 0
    assert abs(client['threadsPermille'] - 300) <= 10 and client['limitMib'] <= limit, client


def test_a_killed_control_daemon_is_replaced(hardware, supervisor):
    supervisor.apply(1000, 0)
    first = supervisor.wait(is_ready, 'ready')['pid']
    began = time.monotonic()
    os.kill(first, signal.SIGKILL)
    daemon = supervisor.wait(lambda daemon: is_ready(daemon) and daemon['pid'] != first, 'ready with a new process')
    say('control daemon replaced', seconds='%.1f' % (time.monotonic() - began), restarts=daemon['restarts'])
    done = hardware.probe('--no-memory', daemon=supervisor)
    assert done.status == 0, '%s\n%s' % (done, supervisor.log())


def test_a_client_of_no_container_is_left_alone(hardware, supervisor):
    supervisor.apply(1000, 0)
    supervisor.wait(is_ready, 'ready')
    load = hardware.start('--load', '20', daemon=supervisor)
    client = supervisor.wait(lambda daemon: daemon.get('clients'), 'a client')['clients'][0]
    answer = supervisor.terminate(client)
    done = Result(load)
    say('terminate', answer=answer, client=done.status)
    assert client.get('containerId') or not answer['ok'], answer
    assert done.status == (3 if answer['ok'] else 0), done
