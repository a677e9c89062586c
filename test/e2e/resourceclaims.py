# SPDX-License-Identifier: Apache-2.0
"""What an API server does with a ResourceClaim and a DeviceClass: what is written is checked, and told in each version of the API.

The rules are those of Kubernetes' pkg/apis/resource/validation as far as a driver, a chart or a test can break them; what this does not
know (network data, …) is refused rather than believed.
"""
import copy
import datetime
import json
import re
import uuid

from resourceslices import LABEL, SUBDOMAIN, Faults, check_qualified, quantity

KEPT = 'v1'  # in which objects are kept
VERSIONS = (KEPT, 'v1beta2', 'v1beta1')
CONVERTED = {'resourceclaims', 'deviceclasses'}

RESULTS, CONFIGS, RESERVED, REQUESTS, CONDITIONS, SELECTORS, CONSTRAINTS, ALTERNATIVES = 32, 64, 256, 32, 8, 32, 32, 8
PARAMETERS = DATA = 10 * 1024
KEY = ('driver', 'pool', 'device', 'shareID')
REASON = re.compile(r'[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')
TYPE = re.compile(r'([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?')
EXTENDED = re.compile(r'(?!(.*\.)?kubernetes\.io/)[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?')


def convert(object_, version):
    """As |version| of the API has it."""
    object_ = {**object_, 'apiVersion': f'resource.k8s.io/{version}'}
    if version == 'v1beta1' and object_.get('kind') == 'ResourceClaim':
        object_['spec'] = copy.deepcopy(object_.get('spec') or {})
        for request in object_['spec'].get('devices', {}).get('requests', []):
            request.update(request.pop('exactly', {}))
    return object_


# ---- the parts ----

def check_keys(faults, field, value, *known):
    faults.expect(isinstance(value, dict), field, value, 'must be an object')
    unknown = set(value) - set(known)
    faults.expect(not unknown, field, sorted(unknown), 'unknown field')


def check_unique(faults, field, items):
    for i, item in enumerate(items):
        if item in items[:i]:
            faults.append((f'{field}[{i}]', 'FieldValueDuplicate', f'Duplicate value: {json.dumps(item)}'))


def check_json(faults, field, value, most):
    """Of a RawExtension."""
    size = len(json.dumps(value, separators=(',', ':'), ensure_ascii=False).encode())
    if size > most:
        faults.append((field, 'FieldValueTooLong', f'Too long: may not be more than {most} bytes'))
    faults.expect(isinstance(value, dict), field, '<value omitted>', 'must be a valid JSON object')


def check_opaque(faults, field, opaque):
    check_keys(faults, field, opaque, 'driver', 'parameters')
    faults.expect(SUBDOMAIN.fullmatch(opaque.get('driver', '')), f'{field}.driver', opaque.get('driver', ''), 'a subdomain')
    check_json(faults, f'{field}.parameters', opaque.get('parameters'), PARAMETERS)


def is_time(text):
    try:
        return isinstance(text, str) and datetime.datetime.strptime(text, '%Y-%m-%dT%H:%M:%SZ')
    except ValueError:
        return False


def is_uuid(text):
    try:
        return str(uuid.UUID(text)) == text
    except (TypeError, ValueError, AttributeError):
        return False


def check_condition(faults, field, condition):
    check_keys(faults, field, condition, 'type', 'status', 'reason', 'message', 'lastTransitionTime', 'observedGeneration')
    faults.expect(TYPE.fullmatch(condition.get('type', '')), f'{field}.type', condition.get('type', ''), 'a qualified name')
    if condition.get('status') not in ('True', 'False', 'Unknown'):
        faults.append((f'{field}.status', 'FieldValueNotSupported', f'Unsupported value: "{condition.get("status", "")}": '
                       'supported values: "False", "True", "Unknown"'))
    if not is_time(condition.get('lastTransitionTime')):
        faults.append((f'{field}.lastTransitionTime', 'FieldValueRequired', 'Required value'))
    reason = condition.get('reason', '')
    if not reason:
        faults.append((f'{field}.reason', 'FieldValueRequired', 'Required value'))
    else:
        faults.expect(REASON.fullmatch(reason) and len(reason) <= 1024, f'{field}.reason', reason, 'a condition reason must start with '
                      "alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an "
                      "alphanumeric character or '_'")
    if len(condition.get('message', '')) > 32 * 1024:
        faults.append((f'{field}.message', 'FieldValueTooLong', 'Too long: may not be more than 32768 bytes'))


def check_device_of(faults, field, of):
    """The names of a device."""
    faults.expect(len(of.get('driver', '')) <= 63 and SUBDOMAIN.fullmatch(of.get('driver', '')), f'{field}.driver', of.get('driver', ''),
                  'a subdomain')
    faults.expect(all(SUBDOMAIN.fullmatch(part) for part in of.get('pool', '').split('/')), f'{field}.pool', of.get('pool', ''),
                  'subdomains')
    faults.expect(LABEL.fullmatch(of.get('device', '')), f'{field}.device', of.get('device', ''), 'a lowercase RFC 1123 label')
    if 'shareID' in of:
        faults.expect(is_uuid(of['shareID']), f'{field}.shareID', of['shareID'], 'uid must be in RFC 4122 normalized form, '
                      '`xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters')


def key_of(device):
    return tuple(device.get(key) for key in KEY)


# ---- the spec ----

def check_wanted(faults, field, wanted, *known):
    """What is wanted: exactly, or as one of several."""
    check_keys(faults, field, wanted, 'deviceClassName', 'selectors', 'allocationMode', 'count', 'capacity', 'tolerations', *known)
    class_ = wanted.get('deviceClassName', '')
    faults.expect(SUBDOMAIN.fullmatch(class_), f'{field}.deviceClassName', class_, 'a subdomain')
    mode, count = wanted.get('allocationMode'), wanted.get('count', 0)
    faults.expect(mode in ('All', 'ExactCount'), f'{field}.allocationMode', mode, 'supported values: "All", "ExactCount"')
    if mode == 'All':
        faults.expect(not count, f'{field}.count', count, "must not be specified when allocationMode is 'All'")
    else:
        faults.expect(count > 0, f'{field}.count', count, 'must be greater than zero')
    faults.too_many(f'{field}.selectors', len(wanted.get('selectors', [])), SELECTORS)
    for i, selector in enumerate(wanted.get('selectors', [])):
        check_keys(faults, f'{field}.selectors[{i}]', selector, 'cel')
        check_keys(faults, f'{field}.selectors[{i}].cel', selector.get('cel', {}), 'expression')
    for name, value in wanted.get('capacity', {}).get('requests', {}).items():
        check_qualified(faults, f'{field}.capacity.requests', name)
        quantity(value)


def check_request(faults, field, request):
    check_keys(faults, field, request, 'name', 'exactly', 'firstAvailable')
    faults.expect(LABEL.fullmatch(request.get('name', '')), f'{field}.name', request.get('name', ''), 'a lowercase RFC 1123 label')
    faults.expect(('exactly' in request) != ('firstAvailable' in request), field, request.get('name'),
                  'exactly one of `exactly` or `firstAvailable` is required')
    if 'exactly' in request:
        check_wanted(faults, f'{field}.exactly', request['exactly'], 'adminAccess')
    alternatives = request.get('firstAvailable', [])
    faults.too_many(f'{field}.firstAvailable', len(alternatives), ALTERNATIVES)
    check_unique(faults, f'{field}.firstAvailable', [one.get('name') for one in alternatives])
    for i, one in enumerate(alternatives):
        at = f'{field}.firstAvailable[{i}]'
        faults.expect(LABEL.fullmatch(one.get('name', '')), f'{at}.name', one.get('name', ''), 'a lowercase RFC 1123 label')
        check_wanted(faults, at, one, 'name')


def check_constraint(faults, field, constraint, names):
    check_keys(faults, field, constraint, 'requests', 'matchAttribute', 'distinctAttribute')
    faults.expect(set(constraint.get('requests', [])) <= names, f'{field}.requests', constraint.get('requests'),
                  'must be the name of a request in the claim')
    given = [constraint[key] for key in ('matchAttribute', 'distinctAttribute') if key in constraint]
    faults.expect(len(given) == 1, field, given, 'exactly one of `matchAttribute` or `distinctAttribute` is required')
    for attribute in given:
        check_qualified(faults, field, attribute)
        faults.expect('/' in attribute, field, attribute, 'a fully qualified name must be a domain and a name separated by a slash')


def filled_in(wanted):
    wanted = {'allocationMode': 'ExactCount', **wanted}
    return {'count': 1, **wanted} if wanted['allocationMode'] == 'ExactCount' else wanted


def fill_in(spec):
    for request in spec.get('devices', {}).get('requests', []):
        if 'exactly' in request:
            request['exactly'] = filled_in(request['exactly'])
        if 'firstAvailable' in request:
            request['firstAvailable'] = [filled_in(one) for one in request['firstAvailable']]


def results_of(spec):
    """The names that a result may have."""
    return {name for request in spec['devices']['requests']
            for name in ([f"{request['name']}/{one.get('name')}" for one in request.get('firstAvailable', [])] or [request['name']])}


def names_of(spec):
    return results_of(spec) | {request['name'] for request in spec['devices']['requests']}


def check_spec(faults, spec):
    check_keys(faults, 'spec', spec, 'devices')
    devices = spec.get('devices', {})
    check_keys(faults, 'spec.devices', devices, 'requests', 'constraints', 'config')
    requests = devices.get('requests', [])
    if not requests:
        faults.append(('spec.devices.requests', 'FieldValueRequired', 'Required value'))
    faults.too_many('spec.devices.requests', len(requests), REQUESTS)
    for i, request in enumerate(requests):
        check_request(faults, f'spec.devices.requests[{i}]', request)
    check_unique(faults, 'spec.devices.requests', [request.get('name') for request in requests])
    faults.too_many('spec.devices.constraints', len(devices.get('constraints', [])), CONSTRAINTS)
    for i, constraint in enumerate(devices.get('constraints', [])):
        check_constraint(faults, f'spec.devices.constraints[{i}]', constraint, names_of(spec))
    faults.too_many('spec.devices.config', len(devices.get('config', [])), CONFIGS // 2)
    for i, config in enumerate(devices.get('config', [])):
        field = f'spec.devices.config[{i}]'
        check_keys(faults, field, config, 'requests', 'opaque')
        faults.expect(set(config.get('requests', [])) <= names_of(spec), f'{field}.requests', config.get('requests'),
                      'must be the name of a request in the claim')
        check_opaque(faults, f'{field}.opaque', config.get('opaque', {}))


# ---- the status ----

def check_result(faults, field, result, requests):
    check_keys(faults, field, result, 'request', 'driver', 'pool', 'device', 'shareID', 'consumedCapacity', 'tolerations', 'adminAccess')
    faults.expect(result.get('request') in requests, f'{field}.request', result.get('request'), 'must be the name of a request in the '
                  "claim or the name of a request in the claim followed by '/' and the name of a subrequest")
    check_device_of(faults, field, result)
    faults.expect('consumedCapacity' not in result or 'shareID' in result, f'{field}.consumedCapacity', '', 'only of a share')
    for name, value in result.get('consumedCapacity', {}).items():
        check_qualified(faults, f'{field}.consumedCapacity', name)
        quantity(value)


def check_allocation(faults, allocation, requests):
    field = 'status.allocation'
    check_keys(faults, field, allocation, 'devices', 'nodeSelector', 'allocationTimestamp')
    devices = allocation.get('devices', {})
    check_keys(faults, f'{field}.devices', devices, 'results', 'config')
    results = devices.get('results', [])
    faults.too_many(f'{field}.devices.results', len(results), RESULTS)
    for i, result in enumerate(results):
        check_result(faults, f'{field}.devices.results[{i}]', result, requests)
    check_unique(faults, f'{field}.devices.results', [key_of(result) for result in results])
    faults.too_many(f'{field}.devices.config', len(devices.get('config', [])), CONFIGS)
    for i, config in enumerate(devices.get('config', [])):
        at = f'{field}.devices.config[{i}]'
        check_keys(faults, at, config, 'source', 'requests', 'opaque')
        faults.expect(config.get('source') in ('FromClass', 'FromClaim'), f'{at}.source', config.get('source'), 'unknown source')
        check_opaque(faults, f'{at}.opaque', config.get('opaque', {}))


def check_device_status(faults, field, device, allocated):
    check_keys(faults, field, device, *KEY, 'conditions', 'data')
    check_device_of(faults, field, device)
    name = '/'.join(filter(None, key_of(device)[:3]))
    faults.expect(key_of(device) in allocated, field, name, 'must be an allocated device in the claim')
    conditions = device.get('conditions', [])
    faults.too_many(f'{field}.conditions', len(conditions), CONDITIONS)
    for i, condition in enumerate(conditions):
        check_condition(faults, f'{field}.conditions[{i}]', condition)
    check_unique(faults, f'{field}.conditions', [condition.get('type') for condition in conditions])
    if 'data' in device:
        check_json(faults, f'{field}.data', device['data'], DATA)


def check_status(faults, before, status, requests):
    check_keys(faults, 'status', status, 'allocation', 'reservedFor', 'devices')
    allocation, reserved = status.get('allocation'), status.get('reservedFor', [])
    if allocation:
        check_allocation(faults, allocation, requests)
    if allocation and before.get('allocation'):
        faults.expect(allocation == before['allocation'], 'status.allocation', '…', 'field is immutable')
    faults.too_many('status.reservedFor', len(reserved), RESERVED)
    for i, user in enumerate(reserved):
        check_keys(faults, f'status.reservedFor[{i}]', user, 'apiGroup', 'resource', 'name', 'uid')
        faults.expect(all(user.get(key) for key in ('resource', 'name', 'uid')), f'status.reservedFor[{i}]', user, 'names are required')
    check_unique(faults, 'status.reservedFor', [user.get('uid') for user in reserved])
    if reserved and not allocation:
        faults.append(('status.reservedFor', 'FieldValueForbidden', 'Forbidden: may not be specified when `allocated` is not set'))
    allocated = [key_of(result) for result in (allocation or {}).get('devices', {}).get('results', [])]
    for i, device in enumerate(status.get('devices', [])):
        check_device_status(faults, f'status.devices[{i}]', device, allocated)
    check_unique(faults, 'status.devices', [key_of(device) for device in status.get('devices', [])])


# ---- the objects ----

def check_claim(before, claim, subresource):
    """The faults that a server finds in what is about to take the place of |before|."""
    faults = Faults()
    fill_in(claim.setdefault('spec', {}))
    if before is None:
        claim.pop('status', None)
        check_spec(faults, claim['spec'])
    elif claim['spec'] != before['spec']:
        faults.invalid('spec', '…', 'field is immutable')
    if subresource == 'status':
        was, status = before.get('status', {}), claim.setdefault('status', {})
        if not status.get('allocation'):  # whose devices these were is not known any more
            had = [key_of(result) for result in (was.get('allocation') or {}).get('devices', {}).get('results', [])]
            status['devices'] = [device for device in status.get('devices', []) if key_of(device) not in had]
        for key in [key for key, value in status.items() if value in (None, [])]:
            del status[key]
        check_status(faults, was, status, results_of(claim['spec']))
    return faults


def check_class(class_):
    faults = Faults()
    name, spec = class_['metadata'].get('name', ''), class_.get('spec', {})
    faults.expect(SUBDOMAIN.fullmatch(name), 'metadata.name', name, 'a subdomain')
    check_keys(faults, 'spec', spec, 'selectors', 'config', 'extendedResourceName')
    faults.too_many('spec.selectors', len(spec.get('selectors', [])), SELECTORS)
    for i, selector in enumerate(spec.get('selectors', [])):
        check_keys(faults, f'spec.selectors[{i}]', selector, 'cel')
        check_keys(faults, f'spec.selectors[{i}].cel', selector.get('cel', {}), 'expression')
        text = selector.get('cel', {}).get('expression', '')
        faults.expect(0 < len(text.encode()) <= 10 * 1024, f'spec.selectors[{i}].cel.expression', text, 'between 1 and 10240 bytes')
    for i, config in enumerate(spec.get('config', [])):
        check_keys(faults, f'spec.config[{i}]', config, 'opaque')
        check_opaque(faults, f'spec.config[{i}].opaque', config.get('opaque', {}))
    extended = spec.get('extendedResourceName')
    faults.expect(extended is None or EXTENDED.fullmatch(extended), 'spec.extendedResourceName', extended, 'an extended resource')
    return faults
