# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the command ``gz``: logs its calls and answers; simulates nothing."""

import os
from pathlib import Path

from processes import write_script

# One log line per call; the robot is listed once it was inserted from an existing file.
GZ = """
import pathlib, re, sys, time
folder = pathlib.Path({folder!r})
words = sys.argv[1:]
with open(folder / 'notes', 'a') as notes:
    notes.write(' '.join(words).replace('\\n', ' ') + '\\n')
asked = [line for line in open(folder / 'notes') if '/scene/info' in line]
if {hangs} and 'scene/info' in words[2] and len(asked) == 2:
    time.sleep(100.0)
if words[0] == 'sim':
    time.sleep(1000.0)
elif words[:2] == ['topic', '-e']:  # the answer to a zero, unless the first are lost
    if {lost} == {ALL}:
        time.sleep(1000.0)
    sent = f'-t {{words[5].removesuffix("/done")}} -m'
    while sum(sent in x for x in open(folder / 'notes')) <= {lost}:
        time.sleep(0.05)
elif words[:2] == ['topic', '-i']:
    time.sleep(0.5)  # as the command does on a busy machine
    print({topic_info!r})
elif words[0] == 'service' and words[2] != '/world/{world}/scene/info' and '/scene/' in words[2]:
    sys.exit('Service call timed out')
elif words[0] == 'service' and '/scene/info' in words[2]:
    print('grid: true')
    if (folder / 'inserted').exists():
        print('model {{\\n  name: "{model}"\\n  id: 9')
elif words[0] == 'service':
    if '/create' in words[2] and sum('/create' in x and 'EntityFactory' in x
                                     for x in open(folder / 'notes')) <= {unanswered}:
        sys.exit('Service call timed out')
    file = re.search('sdf_filename: "(.*?)"', words[-1])
    if file and pathlib.Path(file[1]).read_text().startswith('<robot'):  # in SDF's terms
        (folder / 'inserted').touch()
    print('data: {answer}')
"""

#: Every zero is lost.
ALL = 1000


class Gazebo:
    """The command, in a folder at the head of the PATH."""

    def __init__(
        self,
        folder: Path,
        world: str = 'arm',
        answer: str = 'true',
        model: str = 'scara',
        hangs: bool = False,
        unanswered: int = 0,
        lost: int = 0,
        topic_info: str = 'Publishers [Address, Message Type]:',
    ) -> None:
        self._notes = folder / 'notes'
        text = GZ.format(
            folder=str(folder),
            world=world,
            answer=answer,
            model=model,
            hangs=hangs,
            unanswered=unanswered,
            lost=lost,
            ALL=ALL,
            topic_info=topic_info,
        )
        write_script(folder / 'gz', text, '-IS')
        self.env = {'PATH': f'{folder}{os.pathsep}{os.environ["PATH"]}'}

    def asked(self, text: str) -> list[str]:
        """Return the calls so far that contain a text."""
        notes = self._notes.read_text(encoding='utf-8') if self._notes.exists() else ''
        return [line for line in notes.splitlines() if text in line]
