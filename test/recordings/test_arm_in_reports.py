# SPDX-License-Identifier: Apache-2.0
"""The 3D arm in a report, displayed by a browser without a network."""

import io
import re

import numpy as np
import pytest
import urdf_text
from oracles import PinocchioOracle
from reports import data_of

from robot_dynamics_ros.cli.tables import print_report
from robot_dynamics_ros.description.packages import package_file
from robot_dynamics_ros.description.shipped import shipped_robot
from robot_dynamics_ros.geometry import robot_shapes
from robot_dynamics_ros.model import load_robot
from robot_dynamics_ros.model.findings import Finding
from robot_dynamics_ros.recordings.recording import Recording, format_time
from robot_dynamics_ros.recordings.report.figures import Plots
from robot_dynamics_ros.recordings.report.toolkit import (
    MAX_FACES,
    ArmAnimation,
    ArmMotion,
    Report,
    ReportTable,
)

EPOCH = 1.6e9  # s
PANDA = 'package://example-robot-data/robots/panda_description/urdf/panda.urdf'
PATIENCE_MS = 60_000  # of a browser without a graphics card on a busy machine


def motion(tree, rows=400, rate=100.0):
    """The first joint turns to and fro, the others sway; the reference is ahead by 0.1 s."""
    time = np.arange(rows) / rate
    phase = np.linspace(0.3, 1.0, tree.n) * np.where(tree.prismatic, 0.05, 0.4)

    def at(t):
        return phase * np.sin(1.5 * t[:, np.newaxis] + np.arange(tree.n))

    v = np.gradient(at(time), time, axis=0)
    effort = 0.5 * np.cos(time)[:, np.newaxis] * tree.effort_limit
    return Recording(
        tree.joint_names, EPOCH + time, at(time), v, effort, at(time + 0.1), v, tree.xml
    )


@pytest.fixture(scope='module')
def robot():
    return load_robot(shipped_robot('four_dof'))


@pytest.fixture(scope='module')
def run(robot):
    return motion(robot)


@pytest.fixture(scope='module')
def report(shared, run):
    return shared('analyze', run).folder / 'report.html'


@pytest.fixture(scope='module')
def page(browser, report):
    """The report in a browser without a network; no requests, no errors."""
    context = browser.new_context(viewport={'width': 900, 'height': 700}, offline=True)
    page, errors, asked = context.new_page(), [], []
    page.set_default_timeout(PATIENCE_MS)
    page.on('pageerror', lambda error: errors.append(str(error)))
    page.on('request', lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.wait_for_function("document.querySelector('.arm').scene !== undefined")
    page.evaluate('ready')
    yield page
    assert errors == []
    assert asked == [report.as_uri()]
    context.close()


def shown(browser, arm, folder):
    """Return the page of an arm alone."""
    file = folder / 'report.html'
    Report('t', 'l', arm=arm).write(file)
    page = browser.new_page()
    page.goto(file.as_uri())
    page.evaluate('ready')
    return page


def seen(page, plots=3):
    """Scroll through the first plots, which are drawn when they come into view."""
    for plot in page.locator('.plot').all()[:plots]:
        plot.scroll_into_view_if_needed()
        plot.locator('.xtick').first.wait_for()


def shown_at(page, seconds):
    """Move the slider as a user does; return the picture of the arm."""
    page.locator('.arm input').fill(str(seconds))
    from PIL import Image

    png = page.locator('.arm canvas').screenshot()
    return np.asarray(Image.open(io.BytesIO(png)).convert('RGB'), dtype=int)


@pytest.mark.slow
def test_the_arm_stands_where_the_joint_states_say(page, robot, run):
    """The oracle is Pinocchio, from the same URDF."""
    oracle, row = PinocchioOracle.of(robot), 137
    shown_at(page, run.time[row] - EPOCH)
    poses = page.evaluate("[0, 1].map((i) => document.querySelector('.arm').scene.poses(i))")
    for shown, q in zip(poses, (run.position[row], run.reference_position[row]), strict=True):
        for name, link in zip(robot.link_names, shown, strict=True):
            # positions are float32 in the file, times a slider of the browser's precision
            for found, expected in zip(
                (link['R'], link['p']), oracle.frame_pose(name, q), strict=True
            ):
                np.testing.assert_allclose(found, expected.ravel(), atol=2e-5)


@pytest.mark.slow
def test_it_plays_and_stops_at_the_end(page):
    shown_at(page, 3.5)
    assert page.evaluate('scene.now') == pytest.approx(3.5, abs=1e-3)
    page.locator('.arm select').select_option('5')
    page.locator('.arm .play').click()
    page.wait_for_function('scene.now > 3.9')
    page.wait_for_function('!scene.moving')
    assert page.locator('.arm output').inner_text() == '3.99 s'


@pytest.mark.slow
def test_a_line_in_the_plots_over_time_moves_along_and_a_click_leads_the_arm(page):
    seen(page, 4)
    shown_at(page, 2.0)
    cursors = page.locator('.cursor').filter(visible=True)
    assert cursors.count() >= 1 + 3 * 4, 'one in each panel'
    marks = {}
    for mark in page.locator('.xaxislayer-above').first.locator('.xtick text').all():
        box = mark.bounding_box()
        marks[mark.text_content()] = box['x'] + box['width'] / 2.0
    assert page.locator('.cursor').first.bounding_box()['x'] == pytest.approx(marks['2'], abs=3.0)
    panel = page.locator('.nsewdrag').first
    panel.scroll_into_view_if_needed()
    y = panel.bounding_box()['y'] + 40.0
    page.mouse.move(marks['3'] - 3.0, y)
    page.mouse.move(marks['3'], y, steps=3)
    page.locator('.hoverlayer .hovertext, .hoverlayer .legend').first.wait_for()
    page.mouse.click(marks['3'], y)
    page.wait_for_function('scene.now > 2.5')
    assert float(page.locator('.arm input').input_value()) == pytest.approx(3.0, abs=0.05)


@pytest.mark.slow
def test_it_turns_by_the_mouse_and_a_double_click_sets_it_back(page):
    straight = shown_at(page, 0.4)
    box = page.locator('.arm canvas').bounding_box()
    x, y = box['x'] + 200.0, box['y'] + 200.0
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 80.0, y + 20.0, steps=4)
    page.mouse.up()
    assert (np.abs(straight - shown_at(page, 0.4)).max(axis=2) > 40).mean() > 0.005
    page.mouse.dblclick(x, y)
    np.testing.assert_array_equal(straight, shown_at(page, 0.4))


@pytest.mark.slow
def test_light_dark_and_paper_have_colours_of_their_own(page):
    def colours():
        return [
            page.evaluate(f"getComputedStyle(document.querySelector('{where}')).{what}")
            for where, what in (('body', 'backgroundColor'), ('.gtitle, .xtick text', 'fill'))
        ]

    seen(page, 1)
    page.emulate_media(color_scheme='dark')
    dark = colours()
    page.emulate_media(color_scheme='light')
    light = colours()
    page.emulate_media(color_scheme='dark', media='print')
    assert colours() == ['rgb(255, 255, 255)', 'rgb(0, 0, 0)']
    page.emulate_media(color_scheme='light', media='screen')
    assert light == ['rgb(255, 255, 255)', 'rgb(36, 41, 47)']
    assert dark == ['rgb(20, 23, 27)', 'rgb(228, 231, 235)']


def test_slider_plots_events_and_notes_have_one_zero(robot, tmp_path, capsys):
    origin, at = EPOCH, EPOCH + 1.0
    time, q = origin + np.linspace(0.0, 1.0, 50), np.zeros((50, robot.n))
    arm = ArmAnimation(robot, 'tool', time, [ArmMotion('measured', q, '#2f86c8')])
    last = f'the first at {format_time(at)}: left out'
    report = Report('t', 'l', arm=arm, origin=origin, findings=[Finding('warning', last)],
                    notes=[last], tables=[ReportTable(['at'], [[format_time(at)]])],
                    events=[(at, 'end')])  # fmt: skip
    html = report.html()
    plots = Plots({'time': time, 'x': q[:, :1]}, origin)
    plots.add('x', ['x'], ('x', 'x', '#000000'))
    figure = plots.drawn[0][1]
    assert data_of(html)['arm']['origin'] == figure['layout']['meta']['time'] == origin
    assert figure['data'][0]['x'][-1] == pytest.approx(1.0)
    assert '>1 s</button>end' in html
    assert html.lower().count('the first at 1 s: left out') == 2
    assert '<li>The first at 1 s: left out.</li>' in html
    assert '<td>1 s</td>' in html
    print_report(report, tmp_path)
    said = capsys.readouterr().out
    assert said.count('the first at 1 s: left out') == 2
    assert 'times: since 1600000000 s' in said
    assert said.count('1600000000') == 1


@pytest.mark.slow
def test_an_arm_that_is_not_known_for_a_while_is_not_shown_then(browser, robot, tmp_path):
    """A label that would end the script is treated as text."""
    time = np.linspace(0.0, 1.0, 50)
    q = np.zeros((50, robot.n))
    gone = np.where(time[:, np.newaxis] > 0.5, np.nan, q)
    motions = [ArmMotion('a</script>', q, '#2f86c8'), ArmMotion('b', gone, '#e03e3e', ghost=True)]
    page = shown(browser, ArmAnimation(robot, 'tool', time, motions), tmp_path)
    poses = "[0, 1].map((i) => document.querySelector('.arm').scene.poses(i) !== null)"
    assert page.evaluate(poses) == [True, True]
    shown_at(page, 0.8)
    assert page.evaluate(poses) == [True, False]
    assert page.locator('.arm .legend').inner_text().split() == ['a</script>', 'b']
    page.close()


@pytest.mark.slow
def test_a_tall_arm_is_in_the_picture_from_foot_to_tip(browser, tmp_path):
    box = '<visual><origin xyz="0 0 1"/><geometry><box size="0.2 0.2 2"/></geometry></visual>'
    text = urdf_text.described('tall', """
base: []
mast: [1, [0, 0, 1], [1, 1, 1]]
turn: {of: [base, mast]}
""").replace('</link>\n<joint', f'{box}</link>\n<joint')  # fmt: skip
    assert box in text
    arm = ArmAnimation(
        load_robot(text), 'mast', np.arange(50.0), [ArmMotion('a', np.zeros((50, 1)), '#2f86c8')]
    )
    page = shown(browser, arm, tmp_path)
    view = '(({camera, canvas: c}) => camera.view(c.clientWidth / c.clientHeight))'
    lens = page.evaluate(f"[...{view}(document.querySelector('.arm').scene)]")
    corners = [(x, y, z, 1.0) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (0.0, 2.0)]
    found = corners @ np.reshape(lens, (4, 4))  # WebGL's are column by column
    assert np.abs(found[:, :2] / found[:, 3:]).max() < 1.0, 'beyond the edge'
    page.close()


def test_without_a_known_instant_there_is_no_arm(robot):
    nothing = ArmMotion('b', np.full((50, robot.n), np.nan), '#e03e3e')
    assert ArmAnimation(robot, 'tool', np.arange(50.0), [nothing]).parts() == ('', None)


@pytest.mark.slow
def test_the_report_of_an_arm_with_seven_joints_and_meshes_is_no_larger_than_four_megabytes(
    command,
):
    """More states than curve points: a longer recording does not enlarge the file."""
    robot = load_robot(str(package_file(PANDA)), tip='panda_link8')
    assert robot.n == 7
    shapes, remarks = robot_shapes(robot.xml, MAX_FACES)
    assert not remarks
    assert 0.8 * MAX_FACES < sum(len(shape.faces) for shape in shapes) <= MAX_FACES
    html = command('analyze', motion(robot, rows=6000, rate=200.0)).text('report.html')
    assert len(html.encode()) <= 4_000_000
    assert html.count('id="library"') == 1
    assert len(data_of(html)['arm']['shapes']) >= 8


@pytest.mark.slow
def test_events_and_keys_move_arm_and_cursor(page, run):
    # The reference is ahead by 0.1 s; the first joint has the largest error where it is fastest.
    events = page.locator('.events li')
    error = np.abs(run.reference_position - run.position)
    for name, row in zip(run.joints, error.argmax(axis=0), strict=True):
        events.filter(has_text=f'largest error of {name}').get_by_role('button').click()
        assert page.evaluate('scene.now') == pytest.approx(0.01 * row, abs=0.011)
    assert page.locator('.track i').count() >= 4
    assert page.locator('.track i').first.get_attribute('title')
    page.locator('.arm canvas').focus()
    events.first.get_by_role('button').click()
    times = [page.evaluate('scene.now')]
    for key in ('ArrowRight', 'ArrowLeft'):
        page.keyboard.press(key)
        times.append(page.evaluate('scene.now'))
    assert np.diff(times) == pytest.approx([0.01, -0.01], abs=1e-3)
    page.evaluate('document.activeElement.blur()')
    page.keyboard.press('l')
    page.evaluate('scene.show(scene.end - 0.05)')
    page.keyboard.press(' ')
    page.wait_for_function('scene.now < 1')
    page.keyboard.press(' ')
    assert not page.evaluate('scene.moving')
    page.keyboard.press('l')


@pytest.mark.slow
def test_nothing_can_be_uploaded(page):
    seen(page, 1)
    buttons = page.locator('.modebar-btn').evaluate_all('all => all.map((x) => x.dataset.title)')
    assert {'Download plot as a PNG', 'Zoom', 'Pan'} <= set(buttons)
    assert not [title for title in buttons if re.search('cloud|share|edit', title, re.I)]


@pytest.mark.slow
def test_a_printed_page_has_all_plots_and_no_hover_lines(browser, report):
    page = browser.new_page()
    page.goto(report.as_uri())
    page.evaluate('ready')
    page.wait_for_function("typeof Plotly !== 'undefined'")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media='print')
    plots = page.locator('.plot').count()
    assert page.locator('.plot.js-plotly-plot').count() == plots
    wide = page.locator('.plot .main-svg').evaluate_all('all => all.map((x) => x.clientWidth)')
    assert {x for x in wide if x} == {700}
    assert page.locator('.cursor, .hoverlayer').filter(visible=True).count() == 0
    page.set_viewport_size({'width': 718, 'height': 1000})  # A4 at 96 dpi between its margins
    widths = page.locator('table').evaluate_all('all => all.map((x) => x.offsetWidth)')
    assert 0 < max(widths) <= 718
    page.close()


@pytest.mark.slow
def test_a_page_printed_before_its_plots_are_drawn_says_so(browser, report):
    page, errors = browser.new_page(), []
    page.on('pageerror', lambda error: errors.append(str(error)))
    page.add_init_script('DecompressionStream = class { constructor() { throw Error("slow"); } }')
    page.goto(report.as_uri())
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media='print')
    said = page.evaluate("getComputedStyle(document.querySelector('.plot'), '::before').content")
    assert 'print again' in said
    assert not [error for error in errors if 'Plotly' in error]
    page.close()
