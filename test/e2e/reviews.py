# SPDX-License-Identifier: Apache-2.0
"""TokenReview and SubjectAccessReview of the API server's stand-in: whose token it is, and what that user may do.

    api.reviews.add('jane', ('list', 'nodes'), ('list', 'pods', 'team-a'), ('get', '/metrics'))   # returns a token
"""
import dataclasses
import itertools


@dataclasses.dataclass
class Reviews:
    users: dict = dataclasses.field(default_factory=dict)  # by token: what TokenReview says of the user
    rights: dict = dataclasses.field(default_factory=dict)  # by name: {(verb, resource, namespace or None for all)}
    numbers: itertools.count = dataclasses.field(default_factory=itertools.count)

    def add(self, name, *rights):
        token = f'viewer-{next(self.numbers)}.{name}'
        self.users[token] = {'username': name, 'uid': f'uid-of-{name}', 'groups': ['system:authenticated'], 'extra': {'from': ['test']}}
        self.rights[name] = {(*right, None)[:3] for right in rights}
        return token

    def answer(self, request):
        """As the real server: an unknown token is no failure, and a user is judged by all that was said of it."""
        spec = request.body['spec']
        if request.resource == 'tokenreviews':
            user = self.users.get(spec['token'])
            status = {'authenticated': True, 'user': user} if user else {'user': {}, 'error': 'invalid bearer token'}
            return {**request.body, 'status': status}
        wish = spec.get('resourceAttributes') or {**spec['nonResourceAttributes'], 'resource': spec['nonResourceAttributes']['path']}
        known = next((user for user in self.users.values() if user['username'] == spec['user']), None)
        is_whole = known is not None and all(spec.get(key) == known[key] for key in ('uid', 'groups', 'extra'))
        rights = self.rights.get(spec['user'], set())
        allowed = is_whole and any((wish['verb'], wish['resource'], where) in rights for where in (None, wish.get('namespace', '')))
        return {**request.body, 'status': {'allowed': allowed}}
