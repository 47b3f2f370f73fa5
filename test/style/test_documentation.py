# SPDX-License-Identifier: Apache-2.0
"""The pages: valid commands, valid links, the site builds."""

import os
import re
import runpy
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest
from checkout import ROOT

from robot_dynamics_ros import __main__ as program
from robot_dynamics_ros.__main__ import COMMANDS, NODE_COMMANDS, main

PAGES = [ROOT / 'README.md', ROOT / 'CONTRIBUTING.md', *sorted((ROOT / 'docs').rglob('*.md'))]
OF_ROS = ('ros2', 'sudo', 'rosdep', 'colcon', 'cd')
OURS = ('python', 'make', 'robot-dynamics')
# Commands that the documentation may show because they are run here, unchanged.
AT_ONCE = (
    'check_model four_dof limits_profile:=wide',
    'design_gains scara --program scara_circle',
)


def console_blocks(text: str) -> list[tuple[str, list[str]]]:
    """Return headers and command lines of the console blocks.

    If lines begin with a prompt, the others are output.
    """
    found = re.findall(r'^```(console[^\n]*)\n(.*?)^```', text, re.MULTILINE | re.DOTALL)
    blocks = [(head, body.splitlines()) for head, body in found]
    prompts = [[line for line in lines if line.startswith('$ ')] for _, lines in blocks]
    return [(head, own or lines) for (head, lines), own in zip(blocks, prompts, strict=True)]


def words_of(line: str) -> list[str]:
    """Return the words of a command line, without leading variables and optional words."""
    line = re.sub(r'\s#.*|\[[^\]"]*[A-Z|]*\]\.*(?!")', '', line.removeprefix('$ '))
    words = shlex.split(line.replace('...', '').replace('…', ''))
    while words and (re.match(r'\w+=', words[0]) or words[0] == 'chrt'):
        words = words[3 if words[0] == 'chrt' else 1 :]
    return words


def documented() -> list[tuple[str, str]]:
    """Return every command line of this package with the name of its page."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding='utf-8')
        lines = [line for _, block in console_blocks(text) for line in block]
        lines += re.findall(r'`((?:chrt|python -m|make|robot-dynamics) [^`\n]*)`', text)
        found += [(page.name, line) for line in lines if words_of(line)[:1] in [[w] for w in OURS]]
    return found


@pytest.mark.parametrize(('page', 'line'), documented())
def test_a_documented_command_is_understood(page, line, monkeypatch):
    program, *words = words_of(line)
    if program == 'make':
        targets = re.findall(r'^([\w-]+):', (ROOT / 'Makefile').read_text(), re.MULTILINE)
        asked = {word for word in words if '=' not in word}  # the others set a variable
        assert asked <= set(targets), f'{page}: {line}'
        for campaign in (word for word in words if word.startswith('CAMPAIGN=')):
            assert (ROOT / 'test/campaigns' / f'{campaign[9:]}.py').is_file(), f'{page}: {line}'
    elif words[:2] == ['-m', 'benchmark'] or words[:1] == ['test/campaigns']:
        folder, *named = words[words[0] == '-m' :]
        source = (ROOT / folder / f'{(named or ["__main__"])[0]}.py').read_text('utf-8')
        assert all(word in source for word in named if word[0] == '-'), f'{page}: {line}'
    elif words[:1] == ['-m'] or program == 'robot-dynamics':
        arguments = words[2:] if program == 'python' else words
        assert arguments == [] or parsed(arguments, monkeypatch), f'{page}: {line}'
    else:
        assert (ROOT / words[0]).is_file(), f'{page}: {line}'


def parsed(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether the command line is accepted, without executing it."""
    if '--help' in arguments:
        return arguments == ['--help'] or (arguments[0] in COMMANDS and len(arguments) == 2)
    taken = []
    command = program._command(arguments[0])._replace(run=lambda args: taken.append(args) or 0)
    monkeypatch.setattr(program, '_command', lambda _: command)
    return main(arguments) == 0 and len(taken) == 1


@pytest.mark.slow
@pytest.mark.parametrize('line', AT_ONCE)
def test_a_documented_command_runs_as_it_stands(line, capsys):
    assert any(line in shown for _, shown in documented())
    assert main(line.split()) == 0
    assert capsys.readouterr().out


def test_every_command_is_run_by_a_test():
    others = (path for path in (ROOT / 'test').rglob('*.py') if path != Path(__file__))
    tests = '\n'.join(path.read_text(encoding='utf-8') for path in others)
    names = [NODE_COMMANDS.get(name, name) for name in COMMANDS]
    assert [name for name in names if not re.search(rf"'{name}'", tests)] == []


def test_what_needs_ros_says_so():
    unmarked = [
        f'{page.name}: {line}'
        for page in PAGES
        for head, block in console_blocks(page.read_text(encoding='utf-8'))
        for line in block
        if line.startswith(OF_ROS) and 'title="needs ROS"' not in head
    ]
    assert unmarked == []


def test_console_blocks_are_fenced():
    """Indented ones would escape these tests."""
    indented = [
        f'{page.name}: {line}'
        for page in PAGES
        for line in re.sub(r'^```.*?^```', '', page.read_text(), flags=re.M | re.S).splitlines()
        if re.match(r' {4}(?:\$ )?(?:python|make|ros2|sudo|colcon)\b', line)
    ]
    assert indented == []


def test_the_session_page_shows_the_example_that_a_test_runs():
    page = (ROOT / 'docs' / 'session.md').read_text(encoding='utf-8')
    run = (ROOT / 'examples' / 'session_without_ros.py').read_text(encoding='utf-8')
    shown = re.findall(r'```python\n(.*?)```', page, re.DOTALL)
    assert [code for code in shown if code not in run] == []
    assert len(shown) == 7


def test_the_readme_is_short():
    assert len((ROOT / 'README.md').read_text(encoding='utf-8').splitlines()) <= 120


def paragraphs(text: str) -> list[str]:
    """Return paragraphs and items of lists, without code, formulas, tables and headings."""
    text = re.sub(r'^```.*?^```|\$\$.*?\$\$', '', text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r'^(\||#|>|<| {4}).*$', '', text, flags=re.MULTILINE)
    return [part.strip() for part in re.split(r'\n\s*\n|\n(?=\s*(?:\*|-|\d+\.) )', text)]


@pytest.mark.parametrize('page', PAGES, ids=lambda page: page.name)
def test_a_page_says_what_one_can_do_after_it_and_has_no_paragraph_above_five_lines(page):
    parts = paragraphs(page.read_text('utf-8'))
    assert [part for part in parts if len(part.split('\n')) > 5 or len(part) > 600] == []
    if page.parent == ROOT / 'docs' or page.parent.name == 'theory':
        assert any(part.startswith('After this page you') for part in parts[:4])


def test_links_between_sources_lead_to_files():
    links = [
        (page, urlsplit(link))
        for page in PAGES
        for link in re.findall(r'\]\(([^)\s]+)\)', page.read_text(encoding='utf-8'))
    ]
    inner = [(page, unquote(link.path)) for page, link in links if not link.scheme]
    assert [link for link in inner if not (link[0].parent / link[1]).exists()] == []


@pytest.mark.parametrize('page', sorted((ROOT / 'docs' / 'theory').glob('[!i]*.md')))
def test_a_line_of_code_beside_an_equation_is_in_the_file_named_above_it(page):
    blocks = re.findall(r'```python\n# (\S+)\n(.*?)```', page.read_text('utf-8'), re.DOTALL)
    assert blocks
    for file, block in blocks:
        lines = {line.strip() for line in (ROOT / file).read_text('utf-8').splitlines()}
        assert [line for line in block.splitlines() if line not in lines] == []


@pytest.mark.slow
def test_the_pictures_are_what_the_code_draws(tmp_path):
    command = [sys.executable, 'docs/site_code/pictures.py', str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, 'PYTHONPATH': str(ROOT)}, check=True)
    shown = {path.name: path.read_text('utf-8') for path in (ROOT / 'docs/pictures').glob('*')}
    drawn = {path.name: path.read_text('utf-8') for path in tmp_path.glob('*')}
    number = re.compile(
        r'-?\d+\.\d+'
    )  # of the curves, in pixels, which other processors round otherwise
    assert shown.keys() == drawn.keys()
    for name, text in drawn.items():
        assert number.sub('', text) == number.sub('', shown[name]), name
        found, expected = (np.array(number.findall(x), float) for x in (shown[name], text))
        assert found == pytest.approx(expected, abs=0.3), name


class Links(HTMLParser):
    """Collects the link targets, anchors and loaded resources of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """Note one element."""
        of = dict(attrs)
        self.anchors |= {of[key] for key in ('id', 'name') if of.get(key)}
        if tag == 'a' and of.get('href'):
            self.targets.append(of['href'])
        elif of.get('src') or (tag == 'link' and of.get('href')):
            self.loaded.append(of.get('src') or of['href'])


@pytest.fixture(scope='module')
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp('site')
    command = (sys.executable, '-m', 'mkdocs', 'build', '--strict', '--site-dir', str(folder))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path: Links(path.read_text(encoding='utf-8')) for path in folder.rglob('*.html')}
    return SimpleNamespace(folder=folder, pages=pages)


@pytest.mark.slow
@pytest.mark.timeout(1200)  # the build comes first: half a minute of one processor
def test_the_site_has_no_dead_link_and_needs_no_network(site):
    dead = []
    for page, links in site.pages.items():
        for target in [*links.targets, *links.loaded]:
            parts = urlsplit(target)
            if parts.netloc and target in links.loaded:
                dead.append(f'{page.name} loads {target}')
            if parts.scheme or parts.netloc or page.name == '404.html':
                continue
            file = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if file.is_dir():
                file /= 'index.html'
            anchors = site.pages[file].anchors if file in site.pages else set()
            if not file.is_file() or (parts.fragment and unquote(parts.fragment) not in anchors):
                dead.append(f'{page.name}: {target}')
    assert dead == []


def test_every_topic_of_a_controller_is_explained():
    """The policies also list those that it has only if control_msgs is installed."""
    explained = runpy.run_path(str(ROOT / 'docs' / 'site_code' / 'tables.py'))['MEANINGS']
    policy = (ROOT / 'config' / 'security' / 'simulation.policy.xml').read_text('utf-8')
    own = set(re.findall(r'<topic>/controller/(\w+)</topic>', policy)) - {'transition_event'}
    assert 'speed_scaling_input' in own
    assert {f'~/{name}' for name in own} <= explained.keys()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_site_shows_what_is_derived_from_the_code(site):
    def text(name: str) -> str:
        return (site.folder / name).read_text(encoding='utf-8')

    assert all(f'id="{name}"' in text('commands.html') for name in COMMANDS)
    shown = {
        'parameters.html': 'natural_frequency', 'topics.html': 'effort_controller/commands',
        'notation.html': 'Equation of motion', 'pictures/rooms.svg': '<svg', 'api.html': '<math',
    }  # fmt: skip
    assert [name for name, part in shown.items() if part not in text(name)] == []
    assert 'class="arithmatex"' not in text('api.html')
