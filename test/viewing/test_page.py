# SPDX-License-Identifier: Apache-2.0
"""The viewer's page, in a real browser where one is needed: no ROS."""

import csv
import logging
import math
import re
import socket
import time
import urllib.error
import urllib.request
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import tables
import viser
from browser import Tab
from numpy.testing import assert_allclose, assert_array_equal
from oracles import PinocchioOracle
from samples import sample
from urdf_text import described, joint, link, robot
from viser import CameraHandle
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from robot_dynamics_ros.__main__ import main
from robot_dynamics_ros.description.urdf import Joint, Limit
from robot_dynamics_ros.errors import ConfigurationError
from robot_dynamics_ros.viewing import arm_panel
from robot_dynamics_ros.viewing.arm import ArmInstant, ContactFlash, LinkTree, by_origin
from robot_dynamics_ros.viewing.arm_scene import limit_colour, set_pose
from robot_dynamics_ros.viewing.events import EventLog
from robot_dynamics_ros.viewing.fields import Button, Field, read_numbers, shown
from robot_dynamics_ros.viewing.page import Page
from robot_dynamics_ros.viewing.server import PageServer, refusal

NARROW = 880  # pixels: hardly any scene, so that the page answers at once
BAR = '<visual><origin xyz="0.15 0 0"/><geometry><box size="0.3 0.02 0.02"/></geometry></visual>'


def planar_arm(*names: str) -> str:
    """Return an arm of bars of 0.3 m that turn about z, its tool beyond the last bar."""
    bars = [f'<link name="bar{k}">{BAR}</link>' for k in range(len(names))]
    joints = [
        joint(name, f'bar{k - 1}' if k else 'base', f'bar{k}', xyz=(0.3 if k else 0.0, 0, 0))
        for k, name in enumerate(names)
    ]
    tool = [link('tool'), joint('fix', f'bar{len(names) - 1}', 'tool', 'fixed', xyz=(0.33, 0, 0))]
    return robot('planar', link('base'), *bars, *joints, *tool)


@pytest.fixture
def page():
    """Yield a page on a free port."""
    opened = Page(PageServer(0, 'test'))
    yield opened
    opened.close()


@pytest.fixture
def arm(page):
    """Return an arm of two bars on that page."""
    shown = page.arm('planar')
    shown.set_description(planar_arm('first', 'second'))
    return shown


def handle(page: Page, name: str):
    """Return what is drawn under a name."""
    return page.server.scene.get_handle_by_name(name)


def marked(picture: np.ndarray) -> np.ndarray:
    """Return the middle of what has the colour of the tool's marker, x and y in pixels."""
    red, green, blue = (picture[..., i].astype(int) for i in range(3))
    rows, columns = np.nonzero((red - green > 80) & (red - blue > 25) & (blue - green > 20))
    return np.array([columns.mean(), rows.mean()]) if len(rows) else np.full(2, np.nan)


def test_what_has_no_direction_as_a_sphere_of_radius_0_is_not_turned():
    node = SimpleNamespace(position=np.zeros(3), wxyz=np.ones(4))
    set_pose(node, np.ones(3), np.full((3, 3), math.nan))
    assert (*node.position, *node.wxyz) == (1.0,) * 7


@pytest.mark.slow
def test_the_tool_is_seen_where_the_joint_positions_put_it_and_views_look_at_it(
    page, arm, browser
):
    with Tab(browser, page.web.address) as tab:
        tab.reads('first')
        first, second = 0.9, -0.7
        now = ArmInstant(time=first, position={'first': first, 'second': second})
        arm.show(now)
        arm.write(now)
        tab.reads(f'{second:.3f} rad')
        ends = np.cumsum([first, second])
        bars = np.stack([np.cos(ends), np.sin(ends), 0.0 * ends], axis=1)
        tip = np.array([0.3, 0.33]) @ bars

        def seen() -> bool:
            # The marker measures some pixels, and the bar hides a part of it.
            expected = tab.pixel(tuple(tip), page.server.initial_camera)
            return np.abs(marked(tab.picture()) - expected).max() < 4.0

        tab.until(seen, f'marker of {tip}')
        (client,) = tab.until(page.server.get_clients, 'a report of the camera').values()
        centre, radius = arm.bounding_sphere()

        def looks(at: np.ndarray, back: tuple[int, ...]) -> bool:
            # As the browser says: position and target are set one after the other.
            away = client.camera.position - at
            there = not back or np.allclose(away / np.linalg.norm(away), back, atol=2e-3)
            return there and np.allclose(client.camera.look_at, at, atol=1e-6)

        for view, at, back in (
            ('front', centre, (1, 0, 0)),
            ('side', centre, (0, -1, 0)),
            ('top', centre, (0, 0, 1)),
            ('tool', tip, ()),
        ):
            tab.button(view).click()
            tab.until(lambda at=at, back=back: looks(at, back), f'the camera: {view}')
            assert not back or np.linalg.norm(client.camera.position - at) > 2.0 * radius
        assert tab.errors == []


class Listener:
    """A browser that says after each message to it where its camera was before all of them.

    Attributes:
        told: The last message of each kind.
    """

    client_id, gui = 0, SimpleNamespace(add_html=lambda _: None)

    def __init__(self, eye: np.ndarray, centre: np.ndarray) -> None:
        self.told, self.camera, self._websock_connection = {}, CameraHandle(self), self
        up, at = np.array([0.0, 0.0, 1.0]), {'position': eye, 'look_at': centre}
        self._said = replace(self.camera._state, **at, up_direction=up, update_timestamp=1.0)
        self.camera._state = replace(self._said)

    def queue_message(self, message: object) -> None:
        self.told[type(message).__name__] = message
        self.camera._state = replace(self._said)

    @property
    def pointed(self) -> list[tuple[float, ...]]:
        """Where the camera shall be, and at what it shall look; empty if nobody said it."""
        eye, centre = (self.told.get(f'SetCamera{x}Message') for x in ('Position', 'LookAt'))
        return [eye.position, centre.look_at] if eye and centre else []


def test_every_browser_looks_where_the_others_do_unless_it_chose_a_view(monkeypatch):
    """A present one says between position and target where its camera was: at the same target."""
    connected, centre = [], np.array([0.0, 1.0, 0.5])
    monkeypatch.setattr(viser.ViserServer, 'on_client_connect', lambda _, f: connected.append(f))
    page = Page(PageServer(0, 'test'))
    present = Listener(np.array([3.0, 1.0, 0.5]), centre)
    waiting = Listener(page.server.initial_camera.position, np.zeros(3))
    choosing = Listener(np.array([1.0, 2.0, 3.0]), np.zeros(3))
    monkeypatch.setattr(page.server, 'get_clients', lambda: {0: present})
    page.look_at(centre, 0.4)
    for browser in (waiting, choosing):
        connected[-1](browser)
    page.close()
    for browser in (present, waiting):
        assert_array_equal(browser.pointed, [page.server.initial_camera.position, centre])
    assert choosing.told == {}


def test_every_namespace_has_a_name_of_its_own(page):
    names = [page.arm(space).name for space in ('/', '/arm/', '/a/b/', '/a_b/', '/a/b/')]
    assert names == ['arm', 'arm_', 'a.b', 'a_b', 'a.b']


@pytest.mark.slow
def test_what_cannot_be_shown_is_said_and_what_a_description_says_is_text(page, browser):
    page.arm('none')
    page.arm('broken').set_description('<robot')
    mesh = '<visual><geometry><mesh filename="package://nowhere/a.stl"/></geometry></visual>'
    page.arm('mesh').set_description(robot('m', f'<link name="a">{mesh}</link>'))
    page.arm('empty').set_description('<robot name="e"/>')
    names = ['&lt;img src=x onerror=document.title=1&gt;', *(f'j{k}' for k in range(60))]
    many = page.arm('<b>arm</b>')
    many.set_description(planar_arm(*names))
    status = {'level': 'ok', 'message': '<script>document.title=2</script>'}
    unknown = ArmInstant(1.0, position=dict.fromkeys(names[1:], math.nan), status=status)
    many.show(unknown)
    many.write(unknown)
    gone = []
    page.server.on_client_disconnect(gone.append)
    with Tab(browser, page.web.address, NARROW) as tab:
        for text in (
            'waiting for the description',
            'malformed XML',
            "package 'nowhere': not found",
            'it has no link',
            'j59',
            'unknown',
            '<img src=x onerror=document.title=1>',
            '<script>document.title=2</script>',
        ):
            tab.reads(text)
        assert tab.page.title() not in ('1', '2')
        assert tab.errors == []
        assert gone == []
        tab.page.close()
    deadline = time.monotonic() + 60.0
    while not gone and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(gone) == 1, 'the end of a page is noticed'


ON = """
constraints:
- {name: a, frame: tool, kind: plane, plane: &at {origin: [0.3, 0.1, 0.2]},
   distance: &grows {linear: {from: 0.1, rate: 0.05}}}
- {name: b, frame: tool, kind: line, line: *at}
- {name: c, frame: tool, kind: sphere, radius: *grows,
   sphere: {origin: &round {circle: {center: [0.3, 0.0, 0.2], radius: 0.1}, speed: 0.2}}}
- {name: d, frame: tool, kind: cylinder, cylinder: *at, radius: 0.05}
- {name: e, frame: tool, kind: point, target: *round}
- {name: f, frame: tool, kind: pose, target: {origin: *round}}
- {name: g, frame: tool, kind: orientation, target: *at}
- {name: h, frame: tool, kind: axis_angle, axis: [1, 0, 0], angle: 1.5, reference: *at}
- {name: i, frame: tool, kind: axis_alignment, axis: [0, 0, 1], reference: *at}
- {name: j, frame: tool, kind: distance, other_position: [0.0, 0.0, 0.5], length: *grows}
- {name: k, frame: tool, kind: coincidence, other_frame: link1, other_point: [0.3, 0, 0]}
"""


@pytest.mark.slow
def test_whatever_a_program_draws_on_is_drawn_and_moves(page, browser):
    tree = sample('scara').tree
    arm = page.arm('scara')
    arm.set_description(tree.xml)
    with Tab(browser, page.web.address) as tab:
        arm.draw_program({'law': 'constraint_stabilization', 'program': ON})
        assert handle(page, '/scara/program/10')
        for x in (0.123, 0.321):
            now = ArmInstant(time=x, program_time=x, position=dict.fromkeys(tree.joint_names, x))
            arm.show(now)
            arm.write(now)
            tab.reads(f'{x:.3f} rad')
            tab.page.wait_for_timeout(500.0)  # errors come when the scene is rendered
        assert tab.errors == []
        tab.reads('0.321 rad')


def test_the_trail_is_that_of_the_tool_which_the_commands_take_not_of_a_finger(page):
    arm = page.arm('gripping')
    arm.set_description(described('gripping', """
base: []
one: &body [1, [0.1, 0, 0], [1, 1, 1]]
two: *body
gripper: []
finger: *body
pad: []
tcp: []
first: {of: [base, one]}
second: {of: [one, two], xyz: [0.3, 0, 0]}
mount: {of: [two, gripper, fixed], xyz: [0.3, 0, 0]}
grip: {of: [gripper, finger, prismatic], xyz: [0.05, 0, 0]}
nail: {of: [finger, pad, fixed], xyz: [0.02, 0, 0]}
centre: {of: [gripper, tcp, fixed], xyz: [0.1, 0, 0]}
"""))  # fmt: skip
    arm.show(ArmInstant(time=1.0, position={'first': 0.0, 'second': np.pi / 2}))
    assert_allclose(handle(page, '/gripping/tool').position, [0.3, 0.4, 0], atol=1e-9)


def test_what_lasts_while_the_description_comes_is_one_event(page):
    arm = page.arm('late')
    waiting = ArmInstant(alarm='no joint states on /x for 2 s')
    for _ in range(3):
        arm.name_joints(waiting.position)
        arm.write(waiting)
    arm.set_description(planar_arm('first'))
    arm.write(waiting)
    assert [event.text for event in arm.panel.log.events] == ['no joint states on /x']


def test_a_browser_that_leaves_without_a_request_is_no_fault(monkeypatch, caplog):
    logger = logging.getLogger('websockets.server')
    monkeypatch.setattr(logger, 'filters', [])  # those of servers before
    page = Page(PageServer(0, 'test'))
    with socket.create_connection(('127.0.0.1', page.server.get_port())) as connection:
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b''
    urllib.request.urlopen(page.web.address).read()  # the server has ended the one before
    logger.error('a fault')
    page.close()
    assert [record.getMessage() for record in caplog.records] == ['a fault']


SIZES = ((1100, 800), (390, 640))  # pixels, the last ones of a phone


@pytest.mark.slow
def test_stop_and_hold_are_on_the_screen_at_every_size_and_scroll_position(page, browser):
    pressed = []
    for name in ('stop', 'hold'):
        page.web.actions[name] = lambda _, __, name=name: pressed.append(name) or 'sent'
    arm = page.arm('many')
    arm.set_description(planar_arm(*(f'j{k}' for k in range(60))))
    with Tab(browser, page.web.address) as tab:
        tab.reads('j59')
        for width, height in SIZES:
            tab.page.set_viewport_size({'width': width, 'height': height})
            tab.page.mouse.move(width - 100, height / 2.0)
            tab.page.mouse.wheel(0, 5000)
            for label in ('STOP', 'hold'):
                button = tab.button(label)
                box = button.bounding_box()
                assert 0.0 <= box['x'] <= width - box['width'], (width, height)
                assert 0.0 <= box['y'] <= height - box['height'], (width, height)
                tab.page.mouse.click(box['x'] + box['width'] / 2, box['y'] + box['height'] / 2)
            tab.until(
                lambda: sorted(pressed) == ['hold', 'stop'], f'stop and hold at {width}x{height}'
            )
            pressed.clear()
        page.close()
        tab.button('STOP').click()
        tab.reads('the viewer does not answer')


@pytest.mark.slow
def test_curves_and_events_are_chosen_and_the_arm_keeps_half_of_a_small_screen(page, browser):
    arm = page.arm('planar')
    arm.set_description(planar_arm('first'))
    for k in range(220):
        level = ('ok', 'warning', 'error')[k % 3]
        arm.write(ArmInstant(status={'level': level, 'message': f'event{k}'}))
    with Tab(browser, page.web.address, 1600) as tab:
        for k in range(3):
            numbers = {'first': 0.1 * k}
            arm.show(ArmInstant(time=float(k), position=numbers, velocity=numbers))
        arm.write(ArmInstant())
        tab.reads('curves')
        assert 'velocity (rad/s or m/s)' not in tab.text
        tab.page.get_by_text('curves', exact=True).click()
        velocity = tab.page.get_by_label('velocity (rad/s or m/s)')
        for choose, count in ((velocity.check, 2), (velocity.uncheck, 1)):
            choose()
            tab.until(
                lambda n=count: arm.write(ArmInstant()) or tab.text.count('velocity (') == n,
                f'{count - 1} plots',
            )

        tab.reads('event219')
        tab.reads('event0\n')
        tab.page.get_by_label('at least').click()
        tab.page.get_by_role('option', name='error').click()
        word = tab.page.get_by_text('with the word', exact=True)
        word.locator('xpath=following::input').first.fill('event21')

        def listed() -> list[str]:
            arm.write(ArmInstant())
            return re.findall(r'event\d+', tab.text)

        tab.until(lambda: listed() == ['event218', 'event215', 'event212'], 'those')
        with tab.page.expect_download() as download:
            tab.button('save as CSV').click()
        rows = list(csv.reader(download.value.path().read_text('utf-8').splitlines()))
        assert rows[0] == ['clock', 'time', 'severity', 'text']
        assert [row[2:] for row in rows[1:3]] == [['ok', 'event0'], ['warning', 'event1']]
        assert len(rows) == 221

        def seen() -> float:
            """Return the share of the width between the panels."""
            left, right = (
                tab.page.locator(f'[data-dock-region="{side}"]').bounding_box()
                for side in ('left', 'right')
            )
            return (right['x'] - left['width']) / tab.page.viewport_size['width']

        assert seen() > 0.5
        tab.page.set_viewport_size({'width': 1100, 'height': 800})
        tab.until(lambda: seen() > 0.5, 'half of the width')
        opened = '[data-dock-region="left"] [aria-label="Expand column"]'
        tab.page.locator(opened).click()  # open them, if wanted
        tab.until(lambda: seen() < 0.5, 'the plots')
        tab.page.wait_for_timeout(1500.0)  # the script looks twice a second
        assert seen() < 0.5
        assert tab.errors == []


def test_a_value_is_shown_also_where_it_is_empty_and_read_only_if_it_is_a_number():
    assert [*map(shown, ('', [], [1.5, 2.0]))] == ['none', 'none', '1.5 2']
    assert read_numbers('1.5 -2e-1', 2) == [1.5, -0.2]
    for wrong in ('0,5', '12,15,20,30', 'nan'):
        with pytest.raises(ValueError, match=f"'{wrong}' is not a number"):
            read_numbers(wrong, 1)
    with pytest.raises(ValueError, match='1 expected, 2 given'):
        read_numbers('1 2', 1)


@pytest.mark.slow
def test_a_number_is_sent_when_it_is_entered_and_only_if_it_is_one(page, browser):
    sent, replies = [], []

    def send(_client, value, reply) -> None:
        replies.append(reply)  # first: the test waits for what was sent
        sent.append(value)

    number = Field(page, 'gain', 'gain', lambda text: read_numbers(text, 1)[0], send, asks=True)
    number.show(10.0)
    button = Button(page, 'go', 'circle with the tool', lambda client, reply: None)
    with Tab(browser, page.web.address, NARROW) as tab:
        field = tab.page.locator('input[data-act="gain"]')
        field.wait_for()
        tab.reads('acts: 10')
        tab.enter('gain', '0,5')
        tab.reads("'0,5' is not a number")
        assert field.input_value() == '0,5'
        field.fill('')
        field.press_sequentially('12.5')
        assert sent == []
        field.press('Tab')  # leaves it
        tab.reads('pending: 12.5')
        assert sent == [12.5]
        replies.pop()(False, 'too much')
        tab.reads('refused: too much')
        tab.enter('gain', '11')  # the next one after a refusal
        tab.until(lambda: sent == [12.5, 11.0], 'a second value')
        replies.pop()(True, '')
        tab.reads('acts: 11')
        tab.enter('gain', '25')
        tab.reads('25: far from 11')
        assert sent == [12.5, 11.0]
        tab.button('apply').click()
        tab.until(lambda: sent[2:] == [25.0], 'the confirmed value')
        replies.pop()(True, '')
        button.reply(True, 'sent a motion of 8.3 s')
        tab.reads('sent a motion')
        notes = [note.bounding_box() for note in tab.page.locator('[data-note]').all()]
        assert all(note['width'] > 80.0 for note in notes), 'room for a dozen letters'
        tab.button('undo: 11').click()
        tab.until(lambda: sent[3:] == [11.0], 'the value before')
        assert tab.errors == []


def answered(url: str, **headers: str) -> tuple[int, str]:
    """Return status and cookie of a request, also of one that opens a websocket."""
    headers = {key.replace('_', '-'): value for key, value in headers.items()}
    if url.startswith('ws'):
        protocol = [f'viser-v{viser.__version__}']
        try:
            connect(url, subprotocols=protocol, additional_headers=headers).close()
        except InvalidStatus as error:
            return error.response.status_code, ''
        return 101, ''
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
            return response.status, response.headers.get('Set-Cookie', '')
    except urllib.error.HTTPError as error:
        return error.code, ''


@pytest.mark.parametrize('host', ['127.0.0.1', '0.0.0.0'])
def test_who_may_command_or_comes_from_afar_knows_the_token(host):
    web, done = PageServer(0, 'test', host, guarded=host == '127.0.0.1'), []
    web.actions['stop'] = lambda *_: done.append(True) or 'sent'
    base = web.address.partition('/?')[0]
    status, cookie = answered(web.address)
    assert status == 200
    assert 'SameSite=Strict' in cookie
    kept, action = {'Cookie': cookie.partition(';')[0]}, f'{base}/act?name=stop&value=&client='
    socket = base.replace('http', 'ws')
    for url, headers in (
        (base, {}),
        (f'{base}/?token=x', {}),
        (base, {'Host': 'evil.example', **kept}),
        (action, {'X_Viewer': '1'}),  # without a token
        (action, kept),  # as another page of this machine could send it
        (socket, {}),
        (socket, {'Origin': 'http://evil.example', **kept}),
    ):
        assert answered(url, **headers)[0] == 403
    assert done == []
    assert answered(action, X_Viewer='1', **kept)[0] == 200
    assert done == [True]
    assert answered(socket, **kept)[0] == 101
    web.viser.stop()


# The server's own name, and what a browser sends as Host and Origin; a tunnel may use any port.
@tables.written("""
[0.0.0.0, '192.168.0.7:8080']                                | accepted
[robot, 'robot:8080']                                        | accepted
[127.0.0.1, 'localhost:9000']                                | accepted
[127.0.0.1, 'localhost:9000', 'http://localhost:9000']       | accepted
[127.0.0.1, '[::1]:8080', 'http://[::1]:8080']               | accepted
[127.0.0.1, '127.0.0.1:8080', 'http://evil.example']         | 'http://evil.example' is foreign
[127.0.0.1, '127.0.0.1:8080', 'null']                        | 'null' is foreign
[127.0.0.1, '127.0.0.1:8080', 'http://127.0.0.1:1']          | is foreign
[127.0.0.1, '127.0.0.1:8080', 'https://localhost']           | is foreign
[0.0.0.0, '10.0.0.1:1', 'http://10.0.0.2:1']                 | is foreign
[0.0.0.0, 'evil.example:8080']                               | 'evil.example:8080' is not this
[127.0.0.1, '192.168.0.7:8080']                              | '192.168.0.7:8080' is not this
""")
def test_a_name_from_afar_may_not_stand_for_this_machine(given, said):
    host, *sent = given
    headers = dict(zip(('Host', 'Origin'), sent, strict=False))
    assert re.search(said, refusal(headers, host) or 'accepted')


def test_a_port_that_is_none_or_in_use_is_refused(page):
    for port, problem in (
        (page.server.get_port(), 'Address already in use'),
        (70_000, 'from 0 to 65535'),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            PageServer(port, 'second')


def test_links_stand_where_pinocchio_puts_them():
    robot = sample('scara')
    tree, oracle, q = LinkTree(robot.xml), PinocchioOracle.of(robot), np.linspace(0.1, 0.4, 4)
    poses = tree.poses(tree.relative(dict(zip(robot.tree.joint_names, q, strict=True))))
    for placed, (R, p) in zip(tree.links, poses, strict=True):
        rotation, origin = oracle.frame_pose(placed.name, q)
        assert_allclose(R, rotation, atol=1e-12)
        assert_allclose(p, origin, atol=1e-12)


def test_every_link_has_its_own_shape(page):
    before, _, after = planar_arm('first', 'second').rpartition('size="0.3')
    page.arm('planar').set_description(f'{before}size="0.5{after}')
    for path, length in ('0/1', 0.3), ('0/1/2', 0.5):
        drawn = handle(page, f'/planar/arm/{path}/surface0')
        assert np.ptp(drawn.vertices[:, 0]) == pytest.approx(length)


TWO_POINTS = """
name: two_points
constraints:
  - {name: rod, kind: distance, frame: tool, other_position: [0.4, 0.1, 0.2], length: 0.25}
  - {name: gap, kind: coincidence, frame: tool, other_frame: link1, axes: xz}
null_space: {damping: 1.0}
"""


def test_a_changed_description_and_a_status_without_its_numbers_end_no_page(page):
    """As of an arm whose file is edited, and of a controller of another version."""
    robot = sample('four_dof')
    arm, parameters = page.arm('arm'), {'law': 'constraint_stabilization', 'program': TWO_POINTS}
    arm.set_description(robot.xml)
    arm.draw_program(parameters)
    arm.set_description(robot.xml.replace('<robot', '<!-- edited --><robot', 1))
    status = {'commands': '5', 'latency_p50_us': 'unknown', 'latency_p99_us': '93.0'}
    now = ArmInstant(time=1.0, position=dict.fromkeys(robot.tree.joint_names, 0.1), status=status)
    arm.show(now)
    arm.write(now)
    assert arm.panel._rows[-1][1]['latency'] == {'p99': 93.0}
    arm.draw_program(parameters)
    assert handle(page, '/arm/program/2')


def test_two_points_are_drawn_with_a_rod_of_the_wanted_length_or_their_gap(page):
    robot, q = sample('four_dof'), np.array([0.3, -1.2, -0.4, 0.6])
    arm, oracle, fixed = page.arm('arm'), PinocchioOracle.of(robot), np.array([0.4, 0.1, 0.2])
    arm.set_description(robot.xml)
    arm.draw_program({'law': 'constraint_stabilization', 'program': TWO_POINTS})
    arm.show(ArmInstant(position=dict(zip(robot.tree.joint_names, q, strict=True))))
    tool, link1 = (oracle.frame_pose(name, q)[1] for name in ('tool', 'link1'))
    # Two balls and a rod each.
    first, second, rod, *balls, gap = (handle(page, f'/arm/program/{k}') for k in range(6))
    placed = [ball.position for ball in (first, second, *balls)]
    assert_allclose(placed, [tool, fixed, tool, link1], atol=1e-6)
    assert_allclose(gap.points[0], [link1, tool], atol=1e-6)
    way = rod.points[0, 1] - rod.points[0, 0]
    assert np.linalg.norm(way) == pytest.approx(0.25, abs=1e-6)
    assert_allclose(np.cross(way, tool - fixed), 0.0, atol=1e-6)


def test_a_force_is_an_arrow_at_its_link_with_its_size_in_words(page, arm):
    def show(name: str, link: str, force: float = 12.0):
        """Return the arrow of a force along y of a link."""
        still, wrench = {'first': 0.5 * np.pi, 'second': 0.0}, np.array([0, force, 0, 0, 0, 0.5])
        arm.show(ArmInstant(position=still, wrenches={name: (link, wrench)}))
        return handle(page, f'/planar/{name}')

    arrow, label = show('external', 'bar1'), handle(page, '/planar/external/label')
    start, end = arrow.points[0]
    assert_allclose(start, [0.0, 0.3, 0.0], atol=1e-6)  # the second joint
    way = (end - start) / np.linalg.norm(end - start)
    assert_allclose(way, [-1.0, 0.0, 0.0], atol=1e-6)  # y of a bar along y
    assert (label.text, arrow.visible, label.visible) == ('external 12 N', True, True)
    assert_allclose(show('push', 'bar1').points[0], [2.0 * start - end, start], atol=1e-6)
    for hidden in (('bar1', 0.12), ('nowhere',)):
        assert not show('external', *hidden).visible


def test_a_link_flashes_when_its_contact_begins_and_only_then(page, arm):
    flash = ContactFlash()
    statuses = [{'contacts': str(count), 'touched_link': 'bar1'} for count in (3, 3, 4, 0)]
    shown = [flash.update(x, t) or flash.link(x, t + 0.1) for t, x in enumerate(statuses)]
    assert shown == ['', '', 'bar1', '']
    assert flash.link(statuses[2], 2.9) == 'bar1'
    assert flash.link(statuses[2], 3.1) == ''
    at_limit = {'first': 0.0, 'second': 3.0}
    colours = []
    for touched in ('', 'bar1', ''):
        arm.show(ArmInstant(position=at_limit, touched=touched))
        colours.append(tuple(handle(page, '/planar/arm/0/1/2/surface0').color))
    assert colours[0] == colours[2] == limit_colour(3.0, arm.joints['second'].limit)
    assert colours[1] not in (colours[0], limit_colour(0.0, None))


def test_a_follower_follows_and_a_cycle_is_left_out():
    text = planar_arm('first', 'second').replace(
        '</joint>', '<mimic joint="first" multiplier="-2" offset="0.1"/></joint>', 2
    ).replace('<mimic joint="first" multiplier="-2" offset="0.1"/>', '', 1)  # fmt: skip
    tree = LinkTree(text)
    assert list(tree.joints) == ['first']
    (follower,) = (x for x in tree.links if x.joint.name == 'second')
    assert follower.position({'first': 0.2}) == pytest.approx(-0.3)
    last = '<child link="bar2"/>'
    chain = planar_arm('first', 'second', 'third').replace(
        '<child link="bar1"/>', '<child link="bar1"/><mimic joint="first" multiplier="-2"/>'
    ).replace(last, f'{last}<mimic joint="second" multiplier="3" offset="0.1"/>')  # fmt: skip
    (follower,) = (x for x in LinkTree(chain).links if x.joint.name == 'third')
    assert follower.position({'first': 0.2}) == pytest.approx(-1.1)
    ring = robot('r', link('a'), link('b'), joint('x', 'a', 'b'), joint('y', 'b', 'a'))
    assert LinkTree(ring).links == ()


def test_a_plot_shows_the_chosen_window_and_forgets_when_time_goes_back(page, arm):
    drawn = []
    page.server.gui.add_uplot = lambda columns, *_, **__: drawn.append(columns)
    for k in range(0, 402, 2):
        arm.show(ArmInstant(time=float(k), f={'a': 10.0 * k}))
    arm.panel._window.value = '30 s'
    arm.write(ArmInstant())
    ((times, values),) = drawn
    assert times.tolist() == list(range(370, 402, 2))
    assert values.tolist() == [1e4 * time for time in times]
    for time_ in (0.5, math.nan, 0.5, 0.75):
        arm.show(ArmInstant(time=time_, f={'b': 1.0}))
    arm.write(ArmInstant())
    assert [column.tolist() for column in drawn[1]] == [[0.5, 0.75], [1000.0, 1000.0]]
    arm.show(ArmInstant(time=0.25, f={'b': 1.0}))
    arm.write(ArmInstant())
    assert len(drawn) == 2  # one instant is no curve


@pytest.mark.parametrize(
    ('clock', 'first', 'label'),
    [(20.0, '20.00', 'seconds on the simulated clock'), (1.7e9, '0.00', 'seconds after 22:13:20')],
)
def test_times_are_those_of_the_states(page, arm, clock, first, label, monkeypatch):
    """An instant on the page is found again in a recording, whenever the page was opened."""
    monkeypatch.setattr(arm_panel, 'localtime', time.gmtime)
    labels, f = [], {'path: tool x (m)': 1e-3, 'tilt: pitch (rad)': 2e-3}
    page.server.gui.add_uplot = lambda _, series, *, axes, **__: labels.extend(
        [x['label'] for x in series] + [axes[1]['label']]
    )
    for late in (0.0, 0.25):
        arm.show(ArmInstant(time=clock + late, f=f))
    arm.write(ArmInstant(time=clock, status={'message': 'begun'}))
    assert labels == [label, 'path: tool x (mm)', 'tilt: pitch (mrad)', 'mm or mrad']
    assert f't = {first} s' in arm.panel._state.content
    assert ('20.00 s: begun' in arm.panel._history.content) is (clock < 100.0)
    assert arm.panel.log.table().splitlines()[-1].split(',')[1] == str(clock)


def test_a_curve_of_a_long_window_moves_without_changing_its_points(page, arm):
    """120 s at 30 Hz have more instants than a plot; which of them are drawn may not flicker."""
    drawn = []
    page.server.gui.add_uplot = lambda columns, *_, **__: drawn.append(set(columns[0].tolist()))
    arm.panel._window.value = '120 s'
    for k in range(4000):
        arm.show(ArmInstant(time=k / 30.0, f={'a': 0.0}))
        if k >= 3998:
            arm.write(ArmInstant())
    assert 300 < len(drawn[0]) <= 401
    assert len(drawn[0] ^ drawn[1]) <= 2


def test_a_plot_vanishes_when_its_window_has_no_values_any_more(page, arm):
    """As of the tracking error, once a law without a reference acts."""
    removed: list[bool] = []
    handle = SimpleNamespace(visible=True, remove=lambda: removed.append(True))
    page.server.gui.add_uplot = lambda *_, **__: handle
    for time_, f in ((1.0, {'a': 1.0}), (2.0, {'a': 1.0}), (5.0, {}), (30.0, {})):
        arm.show(ArmInstant(time=time_, f=f))
        arm.write(ArmInstant())
        assert bool(removed) == (time_ > 12.0)
    for time_ in (31.0, 32.0):
        arm.show(ArmInstant(time=time_, f={'a': 1.0}))
    arm.write(ArmInstant())
    assert len(removed) == 1


def test_the_error_of_a_continuous_joint_is_less_than_half_a_turn():
    """Its driver wraps it, the reference turns on; the finger slides by as many metres.

    A program has no tracking error, also before the diagnostics name its law.
    """
    kinds = {'wrist': 'continuous', 'finger': 'prismatic', 'lost': 'continuous'}
    joints = {name: Joint(name, kind, '', '') for name, kind in kinds.items()}
    now = ArmInstant(
        position={'wrist': -3.1, 'finger': 0.0, 'lost': math.nan},
        reference={'wrist': 9.47, 'finger': 6.28, 'lost': 9.47},
    ).in_turn(joints)
    expected = {'wrist': 9.47 - 4.0 * np.pi + 3.1, 'finger': 6.28, 'lost': math.nan}
    assert now.error == pytest.approx(expected, nan_ok=True)
    assert now._replace(f={'tool x (m)': 1e-6}).error == {}


def logged(*instants: ArmInstant) -> list[tuple[str, str]]:
    """Return severity and text of the events of some instants."""
    log = EventLog()
    for now in instants:
        log.update(now)
    return [(event.severity, event.text) for event in log.events]


def test_a_condition_is_listed_once_when_it_begins_and_when_it_ends():
    told = [f'joint{j} is {x} rad from its reference' for j, x in ((4, 0.57), (4, 0.58), (3, 0.6))]
    messages = (*told, '26% of the periods', '5% of the periods', 'active')
    events = logged(*(ArmInstant(status={'message': message}) for message in messages))
    assert [text for _, text in events] == [told[0], told[2], '26% of the periods', 'active']
    alarms = ('', 'no joint states on /x for 2 s', 'no joint states on /x for 3 s', '')
    lost = [
        ArmInstant(status={'message': f'no diagnostics for {age} s', 'stale': 'yes'})
        for age in (4, 5)
    ]
    # Counts since the activation; the third message says that no more came.
    counts = (('1', 'none'), ('2', 'joint1: 3'), ('2', 'joint1: 3'), ('3', 'joint1: 9, joint2: 1'),
              ('4', 'joint1: 9, joint2: 1'))  # fmt: skip
    limited = [
        ArmInstant(status={'message': 'active', 'commands': ticks, 'saturated': text})
        for ticks, text in counts
    ]
    assert logged(*(ArmInstant(alarm=alarm) for alarm in alarms), *lost, *limited) == [
        ('error', 'no joint states on /x'),
        ('ok', 'over: no joint states on /x'),
        ('error', 'no diagnostics'),
        ('ok', 'over: no diagnostics'),
        ('ok', 'active'),
        ('warning', 'efforts at their limits: joint1'),
        ('ok', 'over: efforts at their limits: joint1'),
    ]


def test_an_active_controller_that_is_seen_late_is_told_with_its_activation():
    status, begin = {'message': 'active: pd_gravity'}, 1760000000.0
    clock = time.strftime('%H:%M:%S', time.localtime(begin))
    for activated, seen, words in (
        ('0.520', 0.9, ''),
        ('0.520', 71.6, ', activated at 0.52 s'),
        (f'{begin}', begin + 9, f', activated at {clock}'),
    ):
        now = ArmInstant(time=seen, status=status | {'activated_s': activated})
        assert logged(now) == [('ok', f'active: pd_gravity{words}')]


def test_the_next_run_of_a_controller_is_told_though_its_status_is_the_same():
    counts = ('10', '11', '2', '3')
    instants = (ArmInstant(status={'message': 'active', 'commands': count}) for count in counts)
    told = [text for _, text in logged(*instants)]
    assert told == ['active', 'the controller begins anew', 'active']


def test_frames_of_links_are_shown_also_of_an_arm_that_comes_later(page):
    arm, later = page.arm('planar'), page.arm('later')
    arm.set_description(planar_arm('first'))
    page.frames.value = True
    for callback in page.frames._impl.update_cb:
        callback(None)
    later.set_description(planar_arm('first'))
    for name in ('planar', 'later'):
        frame = handle(page, f'/{name}/arm/0/1')
        assert frame.show_axes
        assert frame.axes_length > 0.01


@pytest.mark.parametrize(('then', 'joined'), [(0.2, True), (-5.0, False), (9.0, False)])
def test_the_path_of_the_tool_does_not_join_what_a_restart_or_a_pause_parts(
    page, arm, then, joined
):
    for time_, q in ((0.0, 0.0), (0.1, 0.1), (0.1 + then, 0.2)):
        arm.show(ArmInstant(time=time_, position={'first': q}))
    assert len(arm.scene.trail._points) == (3 if joined else 1)


def test_a_joint_near_its_limit_and_one_of_unknown_position_have_colours_of_their_own():
    (placed,) = (x.joint for x in LinkTree(planar_arm('first')).links if x.name == 'bar0')
    inside, near, nearer, beyond, unknown = (
        limit_colour(q, placed.limit) for q in (0.0, 2.5, 2.99, 5.0, math.nan)
    )
    assert inside is limit_colour(0.0, None) is None
    assert near != nearer == beyond != unknown


def test_an_effort_of_a_joint_without_a_limit_is_of_nothing_and_not_at_its_limit():
    now = ArmInstant(effort={'free': 1.5, 'weak': 1.5})
    free, weak = (Joint(name, 'revolute', '', '') for name in now.effort)
    weak = weak._replace(limit=Limit(effort=1.5))
    rows = arm_panel.joints_html({'free': free, 'weak': weak}, now).split('<tr>')[1:]
    assert [re.search(r'1\.50 [^<]*', row)[0] for row in rows] == ['1.50 N m', '1.50 of 1.5 N m']
    assert [arm_panel._AT_LIMIT in row for row in rows] == [False, True]


def test_components_are_grouped_by_origin():
    names = ['left/arm/gravity', 'right/inertia', 'right/gravity']
    expected = {'gravity': {'left/arm': 1.0, 'right': 3.0}, 'inertia': {'right': 2.0}}
    assert by_origin(names, [1.0, 2.0, 3.0]) == expected


def test_recordings_are_answered_with_the_command_of_their_report(capsys):
    for words, answer in (
        (['runs/a b'], "analyze 'runs/a b'"),
        (['a', 'b', '--namespace', 'left'], 'compare a b --namespace left'),
    ):
        assert main(['view', *words]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count('\n')) == ('', 1)
        assert err.rstrip().endswith(f'-m robot_dynamics_ros {answer}')
