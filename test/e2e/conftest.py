# SPDX-License-Identifier: Apache-2.0
from fixtures import *  # noqa: F401,F403 -- fixtures and hooks, which test/gpu uses too
