# SPDX-License-Identifier: Apache-2.0
"""Who may give a namespace the label by which its claims may have admin access, by the policy <release>-admin-access."""
import chart
import pytest
from admission import Policy, Review

LABEL = 'resource.kubernetes.io/admin-access'
DRA = {'enabled': True, 'adminAccessBy': ['system:masters', 'anna']}


def person(name, *groups):
    return {'username': name, **({'groups': list(groups)} if groups else {})}


@pytest.fixture(scope='session', name='policy')
def policy_of_two(program):
    return Policy(chart.render(program, {'dra': DRA}).one('ValidatingAdmissionPolicy', 'warpshare-admin-access')['spec'])


def namespace(value=None, **labels):
    labels = {**labels, **({LABEL: value} if value is not None else {})}
    return {'apiVersion': 'v1', 'kind': 'Namespace', 'metadata': {'name': 'team', **({'labels': labels} if labels else {})}, 'spec': {}, 'status': {}}


WRITES = [('CREATE', 'namespaces', None)] + [
    ('UPDATE', f'namespaces{sub}', old) for sub in ('', '/status', '/finalize') for old in (namespace(), namespace(a='b'), namespace('false'))]


@pytest.mark.parametrize('operation, resource, old', WRITES)
def test_the_label_is_set_by_those_who_may_alone(policy, operation, resource, old):
    for is_nameless in (False, True) if operation == 'CREATE' else (False,):
        for user, may in ((person('anna'), True), (person('root', 'system:masters', 'system:authenticated'), True), (person('eve'), False),
                          (person('eve', 'system:authenticated', 'annas'), False), (person('system:masters2', 'anna2'), False)):
            review = Review(operation, resource, user, namespace('true', a='b'), old, is_nameless=is_nameless)
            assert policy.matches(review)
            refusals = policy.refusals(review)
            assert bool(refusals) != may, refusals
            assert may or f'{user["username"]} may not set the label {LABEL}=true' in refusals[0]


def test_everything_else_of_a_namespace_is_for_those_who_may_write_it(policy):
    eve = person('eve')
    for new, old in ((namespace(), None), (namespace(a='b'), None), (namespace('false'), None), (namespace(), namespace('true')),
                     (namespace('false'), namespace('true')), (namespace('true', a='b'), namespace('true')), (namespace(a='b'), namespace())):
        assert not policy.refusals(Review('UPDATE' if old else 'CREATE', 'namespaces', eve, new, old))


def test_the_api_server_can_parse_it(policy):
    assert not policy.faults() and policy.spec['failurePolicy'] == 'Fail'


def test_it_is_there_for_who_asks_for_it_and_else_the_notes_warn(program):
    def rendered(values):
        made = chart.render(program, values)
        return 'warpshare-admin-access' in {one['metadata']['name'] for one in made.all('ValidatingAdmissionPolicyBinding')}, made.notes
    assert rendered({'dra': DRA})[0]
    for values in ({}, {'dra': {'enabled': True}}, {'dra': {**DRA, 'enabled': False}}, {'dra': DRA, 'rbac': {'admissionPolicy': False}},
                   {'dra': DRA, 'rbac': {'create': False}}):
        is_there, notes = rendered(values)
        assert not is_there
        assert ('dra.adminAccessBy' in notes) == values.get('dra', {}).get('enabled', False)
    assert 'dra.adminAccessBy' not in chart.render(program, {'dra': DRA}).notes


def test_names_with_strange_characters_stay_what_they_are(program):
    name = 'oidc:"o\'neil" <a&b>\\x'
    policy = Policy(chart.render(program, {'dra': {'enabled': True, 'adminAccessBy': [name]}}).one(
        'ValidatingAdmissionPolicy', 'warpshare-admin-access')['spec'])
    assert not policy.refusals(Review('CREATE', 'namespaces', person(name), namespace('true')))
    assert policy.refusals(Review('CREATE', 'namespaces', person('eve'), namespace('true')))
