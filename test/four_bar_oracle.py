# SPDX-License-Identifier: Apache-2.0
"""The driven four-bar without the package: published formulas, geometry, free bodies.

Angles, lengths and directions are those of Ma, Xu, Li 1988, section 3: x0 up, y0 forward, all axes
along z0. A prime is written p. Links in the order L1, L2, L1', L2'.
"""

from types import SimpleNamespace

import mpmath as mp
import numpy as np
import yaml

# The project's numbers for the parallelogram, repeated here.
NUMBERS = SimpleNamespace(
    **yaml.safe_load("""
{l1: 0.55, l2p: 0.55, l1p: 0.21, l3p: 0.21, d1: 0.26, d2: 0.31, d1p: 0.09, d2p: 0.27, m1: 14.0,
 m2: 9.5, m1p: 4.2, m2p: 3.1, I1z: 0.62, I2z: 0.85, I1pz: 0.041, I2pz: 0.115, g: 9.81}
""")
)
GENERAL = SimpleNamespace(**{**vars(NUMBERS), 'l2p': 0.50, 'l3p': 0.27})


def published_contributions(p, u, ud, udd, sin=np.sin, cos=np.cos):
    """Return M_i of each link to theta_1 and theta_1', sections 3.3 and 3.4 with erratum K3."""
    t, tp = u
    w, wp = ud
    a, ap = udd
    s, c = sin(t - tp), cos(t - tp)
    g = p.g
    return [
        [p.m1 * (-g * p.d1 * sin(t) + p.d1**2 * a) + p.I1z * a, 0],
        [
            p.m2
            * (-g * p.l1 * sin(t) + p.l1**2 * a - p.l1 * p.d2 * c * wp**2 + p.l1 * p.d2 * s * ap),
            p.m2
            * (-g * p.d2 * cos(tp) + p.d2**2 * ap + p.l1 * p.d2 * c * w**2 + p.l1 * p.d2 * s * a)
            + p.I2z * ap,
        ],
        [0, p.m1p * (g * p.d1p * cos(tp) + p.d1p**2 * ap) + p.I1pz * ap],
        [
            p.m2p
            * (
                -g * p.d2p * sin(t)
                + p.d2p**2 * a
                + p.l1p * p.d2p * c * wp**2
                - p.l1p * p.d2p * s * ap
            )
            + p.I2pz * a,
            p.m2p
            * (
                g * p.l1p * cos(tp)
                + p.l1p**2 * ap
                - p.l1p * p.d2p * c * w**2
                - p.l1p * p.d2p * s * a
            ),
        ],
    ]


class FreeBodies:
    """A motion of the four-bar of any lengths, and the forces in it, in 50 digits.

    The coordinates move as ``u + ud t + udd t^2/2``. The loop is closed by intersecting two
    circles; positions of the centres of mass are differentiated by mpmath; the four links are
    free bodies with the five pin forces and the two torques as twelve unknowns. The second motor
    is at the crank L1' or, optionally, at J2 between the arms.
    """

    def __init__(self, p, u, ud, udd, *, motor_at_elbow: bool = False) -> None:
        self.p, self._motor_at_elbow = p, motor_at_elbow
        self._motion = [
            tuple(mp.mpf(float(value)) for value in values)
            for values in zip(u, ud, udd, strict=True)
        ]
        with mp.workdps(50):
            self._solve()

    def pins(self, t):
        """Return the pins O, J2, J2', J3' as complex numbers x0 + i y0."""
        p = self.p
        th, thp = (q + v * t + a * t * t / 2 for q, v, a in self._motion)
        j2, j2p = p.l1 * mp.expj(th), -1j * p.l1p * mp.expj(thp)
        across = j2 - j2p
        r = abs(across)
        along = (r**2 + p.l2p**2 - p.l3p**2) / (2 * r)
        # Of the two intersections the one on the rear side, to the right of J2' -> J2: y0 is
        # forward, so it is at +y0 turned back.
        rod = across / r * mp.mpc(along, -mp.sqrt(p.l2p**2 - along**2))
        return mp.mpc(0), j2, j2p, j2p + rod

    def angles(self, t):
        """Return theta_1, phi_2 = theta_1 + theta_2, theta_1', phi_2' = theta_1' + theta_2'."""
        _, j2, j2p, j3p = self.pins(t)
        return [mp.arg(x) for x in (j2, (j2 - j3p) / 1j, j2p * 1j, j3p - j2p)]

    def coms(self, t):
        """Return the centres of mass of the links."""
        p, (_, j2, j2p, j3p) = self.p, self.pins(t)
        return (
            p.d1 / p.l1 * j2,
            j2 + p.d2 * (j2 - j3p) / p.l3p,
            p.d1p / p.l1p * j2p,
            j2p + p.d2p / p.l2p * (j3p - j2p),
        )

    def _rates(self, function, order):
        """Return the derivatives by time of four values, at time 0."""
        return [mp.diff(lambda t, i=i: function(t)[i], 0, order) for i in range(4)]

    def _solve(self) -> None:
        p = self.p
        places, coms = self.pins(mp.mpf(0)), self.coms(mp.mpf(0))
        acc, alpha = self._rates(self.coms, 2), self._rates(self.angles, 2)
        masses, inertias = (p.m1, p.m2, p.m1p, p.m2p), (p.I1z, p.I2z, p.I1pz, p.I2pz)
        # Pin, link it acts on with +, link with - (None: the base); columns 2 per pin.
        joints = [(0, 0, None), (0, 2, None), (1, 1, 0), (2, 3, 2), (3, 3, 1)]
        A, b = mp.zeros(12), mp.zeros(12, 1)
        for i in range(4):
            force = masses[i] * (acc[i] + p.g)  # weight along -x0
            b[3 * i], b[3 * i + 1], b[3 * i + 2] = force.real, force.imag, inertias[i] * alpha[i]
        for k, (pin, on, by) in enumerate(joints):
            for link, sign in ((on, 1), (by, -1)):
                if link is not None:
                    arm = sign * (places[pin] - coms[link])
                    A[3 * link, 2 * k] = A[3 * link + 1, 2 * k + 1] = sign
                    A[3 * link + 2, 2 * k], A[3 * link + 2, 2 * k + 1] = -arm.imag, arm.real
        A[2, 10] = 1  # the first torque on L1, from the base
        if self._motor_at_elbow:
            A[5, 11], A[2, 11] = 1, -1  # the second on L2, from L1
        else:
            A[8, 11] = 1  # the second on L1', from the base
        x = np.array(mp.lu_solve(A, b).tolist(), float)[:, 0]
        #: The torques of the motors; the force (x0, y0) on L2' at J3'.
        self.torques, self.rear_pin_force = x[10:], x[8:10]
        self.tree_angles, self.tree_rates, self.tree_accelerations = (
            np.array(values, float)
            for values in (
                self.tree(mp.mpf(0)),
                self._rates(self.tree, 1),
                self._rates(self.tree, 2),
            )
        )

    def tree(self, t):
        """Return the angles of the joints: each of a second link from the first one."""
        th, f2, thp, f2p = self.angles(t)
        return th, f2 - th, thp, f2p - thp
