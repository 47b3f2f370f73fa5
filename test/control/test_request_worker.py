# SPDX-License-Identifier: Apache-2.0
"""Requests of a controller node: one at a time, in their order, slow ones in a thread."""

import threading
import time

import pytest

from robot_dynamics_ros.control.request_worker import RequestWorker
from robot_dynamics_ros.errors import ConfigurationError


@pytest.fixture
def worker():
    worker = RequestWorker()
    yield worker
    worker.close()


class Requests:
    """Requests that note their preparation and their commit; slow ones wait at a gate."""

    def __init__(self, worker) -> None:
        self.worker, self.log, self.gate = worker, [], threading.Event()

    def submit(self, name, *, slow=False, replaces=''):
        def prepare():
            assert not slow or self.gate.wait(60.0)
            self.log.append(f'prepare {name}')
            return lambda: name

        def finish(prepared):
            try:
                self.log.append(f'commit {prepared.result()()}')
            except ConfigurationError as error:
                self.log.append(f'{name}: {error}')

        self.worker.submit(prepare, finish, slow=slow, replaces=replaces)

    def proceed(self, until):
        self.gate.set()
        end = time.monotonic() + 60.0
        while until not in self.log and time.monotonic() < end:
            self.worker.proceed()


def test_a_fast_request_acts_at_once_unless_others_are_being_prepared(worker):
    requests = Requests(worker)
    requests.submit('first')
    assert requests.log == ['prepare first', 'commit first']
    requests.submit('slow', slow=True)
    requests.submit('after')
    worker.proceed()
    assert len(requests.log) == 2
    requests.proceed('commit after')
    # Each one sees the session as the one before has left it.
    assert requests.log[2:] == ['prepare slow', 'commit slow', 'prepare after', 'commit after']


def test_of_streamed_messages_that_wait_only_the_newest_is_prepared(worker):
    requests = Requests(worker)
    requests.submit('slow', slow=True)
    for k in range(5):
        requests.submit(f'target {k}', slow=True, replaces='target')
    requests.submit('other', slow=True)
    requests.proceed('commit other')
    assert [text for text in requests.log if text.startswith('commit')] == [
        'commit slow', 'commit target 4', 'commit other',
    ]  # fmt: skip


def test_what_is_not_prepared_by_the_end_is_refused(worker):
    requests = Requests(worker)
    requests.submit('slow', slow=True)
    requests.submit('after')
    worker.close()
    requests.submit('late', slow=True)  # an executor may have taken it before
    refused = 'request: the controller was cleaned up; send it again'
    assert requests.log == [f'{name}: {refused}' for name in ('slow', 'after', 'late')]
    requests.gate.set()
