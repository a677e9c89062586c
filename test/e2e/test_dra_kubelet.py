# SPDX-License-Identifier: Apache-2.0
"""The DRA service with grpcio as kubelet: it finds the driver by its sockets, and calls it as Kubernetes 1.32 to 1.37 do."""
import os
import queue
import shutil
import socket
import time

import grpc
import pytest

import dra_pb2 as dra
import pluginregistration_pb2 as watcher
from dra_driver import DRIVER, PATIENCE, Driver

V1 = '/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/'
V1BETA1 = '/k8s.io.kubelet.pkg.apis.dra.v1beta1.DRAPlugin/'


@pytest.fixture(name='folder')
def make_folder(tmp_path):
    # pytest's folders have names that are too long for a socket.
    folder = f'/tmp/dra-{os.getpid()}-{abs(hash(str(tmp_path))) % 10**8}'
    os.makedirs(folder + '/plugins_registry')
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(name='start')
def make_start(folder):
    drivers = []

    def start(**options):
        drivers.append(Driver(folder, **options))
        return drivers[-1]
    yield start
    for driver in drivers:
        assert driver.close() in (0, -9)


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, 'waited in vain'
        time.sleep(0.02)


def accepts(path):
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            return True
        except OSError:
            return False


def dial(path, authority='localhost'):
    wait_for(lambda: accepts(path))
    options = [('grpc.use_local_subchannel_pool', 1), ('grpc.enable_retries', 0)]
    if authority is not None:
        options.append(('grpc.default_authority', authority))
    return grpc.insecure_channel('unix:' + path, options=options)


def method(channel, path, request, response):
    return channel.unary_unary(
        path, request_serializer=request.SerializeToString, response_deserializer=response.FromString)


def get_info(channel):
    # 1 s is what kubelet gives it.
    return method(channel, '/pluginregistration.Registration/GetInfo', watcher.InfoRequest, watcher.PluginInfo)(
        watcher.InfoRequest(), timeout=PATIENCE)


def notify(channel, registered, error=''):
    return method(channel, '/pluginregistration.Registration/NotifyRegistrationStatus', watcher.RegistrationStatus,
                  watcher.RegistrationStatusResponse)(
        watcher.RegistrationStatus(plugin_registered=registered, error=error), timeout=PATIENCE)


def prepare(channel, *uids, service=V1):
    request = dra.ClaimsRequest(claims=[dra.Claim(namespace='default', uid=uid, name='c-' + uid) for uid in uids])
    return method(channel, service + 'NodePrepareResources', dra.ClaimsRequest, dra.PrepareResponse).future(
        request, timeout=PATIENCE)


def unprepare(channel, *uids, service=V1):
    request = dra.ClaimsRequest(claims=[dra.Claim(namespace='default', uid=uid, name='c-' + uid) for uid in uids])
    return method(channel, service + 'NodeUnprepareResources', dra.ClaimsRequest, dra.UnprepareResponse).future(
        request, timeout=PATIENCE)


def results(future):
    return {entry.key: entry.value for entry in future.result().claims}


def watch(channel, version):
    return channel.unary_stream(
        f'/{version}.DRAResourceHealth/NodeWatchResources', request_serializer=dra.ClaimsRequest.SerializeToString,
        response_deserializer=dra.WatchResponse.FromString)(dra.ClaimsRequest(), timeout=PATIENCE)


def test_get_info_has_the_drivers_socket_and_versions(start):
    driver = start()
    with dial(driver.first) as channel:
        info = get_info(channel)
        assert (info.type, info.name, info.endpoint) == ('DRAPlugin', DRIVER, driver.second)
        assert list(info.supported_versions) == [
            'v1.DRAPlugin', 'v1beta1.DRAPlugin', 'v1.DRAResourceHealth', 'v1alpha1.DRAResourceHealth']
        assert os.path.exists(driver.second)
        notify(channel, True)
    assert driver.says() == 'registered'


def test_a_refusal_is_reported_with_its_reason_and_kubelet_is_asked_again(start):
    driver = start(retry_ms=100)
    with dial(driver.first) as channel:
        before = os.stat(driver.first).st_ctime_ns
        notify(channel, False, 'no such version')
    assert driver.says() == 'refused no such version'
    wait_for(lambda: accepts(driver.first) and os.stat(driver.first).st_ctime_ns != before)


@pytest.mark.parametrize('service', [V1, V1BETA1])
def test_a_claim_is_prepared_and_unprepared(start, service):
    driver = start()
    with dial(driver.second) as channel:
        answer = prepare(channel, 'u-1', service=service)
        assert driver.says() == 'prepare default u-1 c-u-1'
        driver.tell('done u-1')
        assert results(answer)['u-1'] == dra.PrepareResult(devices=[dra.Device(
            request_names=['gpu'], pool_name='node', device_name='gpu-0-shared',
            cdi_device_ids=['warpshare.dev/claim=u-1-gpu'], share_id='share-1' if service == V1 else '')])
        answer = unprepare(channel, 'u-1', service=service)
        assert driver.says() == 'unprepare default u-1 c-u-1'
        driver.tell('fail u-1 not now')
        assert results(answer) == {'u-1': dra.UnprepareResult(error='not now')}


def test_the_alpha_service_of_1_31_is_unimplemented(start):
    driver = start()
    with dial(driver.second) as channel:
        with pytest.raises(grpc.RpcError) as raised:
            prepare(channel, 'u-1', service='/v1alpha3.Node/').result()
    assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize('authority', ['localhost', '%2Fvar%2Flib%2Fkubelet%2Fx.sock', '/var/lib/kubelet/x.sock', None])
def test_every_form_of_authority_is_served(start, authority):
    driver = start()
    with dial(driver.first, authority) as channel:
        assert get_info(channel).name == DRIVER
    with dial(driver.second, authority) as channel:
        assert results(prepare(channel)) == {}


def test_claims_are_prepared_at_the_same_time_and_answered_as_they_are_done(start):
    driver = start()
    with dial(driver.second) as channel:
        answers = {uid: prepare(channel, uid) for uid in ('u-1', 'u-2', 'u-3')}
        assert sorted(driver.says() for _ in answers) == [f'prepare default {uid} c-{uid}' for uid in answers]
        for uid in ('u-3', 'u-1', 'u-2'):
            driver.tell('done ' + uid)
            assert list(results(answers[uid])) == [uid]


def test_a_slow_claim_gets_an_error_beside_the_answer_of_a_quick_one(start):
    driver = start(timeout_ms=1000)
    with dial(driver.second) as channel:
        answer = prepare(channel, 'slow', 'quick')
        assert driver.says() and driver.says()
        driver.tell('done quick')
        answer = results(answer)
        assert answer['quick'].error == '' and len(answer['quick'].devices) == 1
        assert answer['slow'].error == (
            'prepare of claim default/c-slow takes longer than 1000 ms; it goes on, and is asked for again')


def test_a_connection_that_was_closed_while_idle_is_opened_again(start):
    driver = start()
    for uid in ('u-1', 'u-2'):
        with dial(driver.second) as channel:
            answer = prepare(channel, uid)
            assert driver.says() == f'prepare default {uid} c-{uid}'
            driver.tell('done ' + uid)
            assert list(results(answer)) == [uid]


def test_every_watcher_of_either_version_gets_health_at_once_and_again(start):
    driver = start()
    with dial(driver.second) as channel, dial(driver.second) as other:
        streams = [watch(channel, 'v1'), watch(channel, 'v1'), watch(channel, 'v1alpha1'), watch(other, 'v1alpha1')]
        driver.tell('health 1 ')
        for stream in streams:
            assert next(stream).devices[0].health == dra.HEALTHY
            assert next(stream).devices[0].health == dra.HEALTHY  # sent again
        streams[0].cancel()
        driver.tell('health 2 ' + 'é' * 600)
        for stream in streams[1:]:
            device = next(answer.devices[0] for answer in stream if answer.devices[0].health == dra.UNHEALTHY)
            assert (device.device.pool_name, device.device.device_name) == ('node', 'gpu-0')
            assert device.message == 'é' * 510 + '...'
            stream.cancel()


def test_sockets_and_directories_that_vanish_are_made_again(start):
    driver = start()
    for path in (driver.first, driver.second):
        wait_for(lambda path=path: accepts(path))
        os.unlink(path)
        wait_for(lambda path=path: accepts(path))
    for folder in (driver.registry, driver.plugins):
        os.rename(folder, folder + '.old')  # at once: the driver makes a socket again while its folder is being emptied
        shutil.rmtree(folder + '.old')
    wait_for(lambda: accepts(driver.second))
    assert not os.path.exists(driver.registry)  # kubelet's to make
    os.mkdir(driver.registry)
    with dial(driver.first) as channel:
        assert get_info(channel).endpoint == driver.second


def test_of_two_instances_one_prepares_at_a_time(start):
    first, second = start(instance='pod-1'), start(instance='pod-2')
    with dial(first.second) as one, dial(second.second) as two:
        answers = [prepare(one, 'u-1')]
        assert first.says() == 'prepare default u-1 c-u-1'
        answers.append(prepare(two, 'u-1'))
        with pytest.raises(queue.Empty):
            second.lines.get(timeout=0.5)
        first.tell('done u-1')
        assert second.says() == 'prepare default u-1 c-u-1'
        second.tell('done u-1')
        for answer in answers:
            assert results(answer)['u-1'].error == ''


def test_the_sockets_of_a_killed_instance_go_and_those_of_a_live_one_stay(start):
    killed, live = start(instance='pod-1'), start(instance='pod-2')
    for driver in (killed, live):
        wait_for(lambda driver=driver: accepts(driver.first))
    killed.process.kill()
    killed.process.wait()
    assert os.path.exists(killed.first)  # it may be about to listen
    old = time.time() - 3600
    for path in (killed.first, killed.second, live.first, live.second):
        os.utime(path, (old, old))
    third = start(instance='pod-3')
    wait_for(lambda: accepts(third.first))
    wait_for(lambda: not os.path.exists(killed.first) and not os.path.exists(killed.second))
    assert accepts(live.first) and accepts(live.second)


def test_a_second_instance_of_the_same_name_waits_for_the_end_of_the_first(start):
    first = start()
    with dial(first.second) as channel:
        made = os.stat(first.second).st_ctime_ns
        second = start()
        time.sleep(0.6)  # three looks of the second
        assert os.stat(first.second).st_ctime_ns == made
        answer = prepare(channel, 'u-1')
        assert first.says() == 'prepare default u-1 c-u-1'
        first.tell('done u-1')
        assert results(answer)['u-1'].error == ''
    assert first.close() == 0
    with dial(second.second) as channel:
        answer = prepare(channel, 'u-2')
        assert second.says() == 'prepare default u-2 c-u-2'
        second.tell('done u-2')
        assert results(answer)['u-2'].error == ''
