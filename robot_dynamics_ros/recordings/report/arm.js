// SPDX-License-Identifier: Apache-2.0
// Animation of the arm in plain WebGL 2. Matrices are 4 x 4, column-major; poses are {R, p}.
'use strict';

const SURFACE = {
  vertex: `#version 300 es
    in vec3 point, normal; uniform mat4 pose, view; out vec3 n;
    void main() { n = mat3(pose) * normal; gl_Position = view * pose * vec4(point, 1.0); }`,
  fragment: `#version 300 es
    precision mediump float; in vec3 n; uniform vec4 colour; out vec4 shade;
    void main() {
      vec3 m = normalize(n) * (gl_FrontFacing ? 1.0 : -1.0);
      float light = 0.55 + 0.3 * max(dot(m, normalize(vec3(0.4, -0.6, 0.9))), 0.0)
                  + 0.18 * max(dot(m, normalize(vec3(-0.7, 0.5, 0.2))), 0.0);
      shade = vec4(colour.rgb * light, colour.a);
    }`,
};
// A segment from a to b, drawn as two triangles, w pixels wide.
const LINE = {
  vertex: `#version 300 es
    in vec3 a, b; in vec2 corner; uniform mat4 view; uniform vec2 size; uniform float w;
    void main() {
      vec4 p = view * vec4(a, 1.0), q = view * vec4(b, 1.0);
      vec2 along = normalize((q.xy / q.w - p.xy / p.w) * size + vec2(1e-6, 0.0));
      vec4 end = corner.x > 0.0 ? q : p;
      end.xy += (vec2(-along.y, along.x) * corner.y + along * corner.x * 0.5) * w / size * end.w;
      gl_Position = end;
    }`,
  fragment: `#version 300 es
    precision mediump float; uniform vec4 colour; out vec4 shade; void main() { shade = colour; }`,
};

// ---- numbers -------------------------------------------------------------------------------

function numbers(text, kind = Float32Array) {
  return new kind(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
}

const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) =>
  [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
const unit = (a) => a.map((x) => x / Math.hypot(...a));
const turned = (R, a) => [0, 3, 6].map((i) => R[i] * a[0] + R[i + 1] * a[1] + R[i + 2] * a[2]);
const times = (A, B) => A.map((_, k) => {
  const [i, j] = [3 * Math.floor(k / 3), k % 3];
  return A[i] * B[j] + A[i + 1] * B[j + 3] + A[i + 2] * B[j + 6];
});

function rotation([x, y, z], angle) {  // Rodrigues
  const [c, s] = [Math.cos(angle), Math.sin(angle)], d = 1 - c;
  return [c + x * x * d, x * y * d - z * s, x * z * d + y * s,
          x * y * d + z * s, c + y * y * d, y * z * d - x * s,
          x * z * d - y * s, y * z * d + x * s, c + z * z * d];
}

const matrix = ({R, p}) =>
  [R[0], R[3], R[6], 0, R[1], R[4], R[7], 0, R[2], R[5], R[8], 0, ...p, 1];

function product(A, B) {
  return A.map((_, k) => [0, 1, 2, 3].reduce(
    (sum, i) => sum + A[4 * i + k % 4] * B[4 * Math.floor(k / 4) + i], 0));
}

function rgba(text, opacity = 1) {
  return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16) / 255).concat(opacity);
}

// ---- the arm -------------------------------------------------------------------------------

const BASE = {R: [1, 0, 0, 0, 1, 0, 0, 0, 1], p: [0, 0, 0]};

class Arm {
  constructor(bodies, tool, motion) {
    Object.assign(this, {bodies, tool}, motion);
    this.positions = numbers(motion.positions);
  }

  // Joint positions interpolated between two instants, or null if one is not finite.
  joints(k, share) {
    const n = this.bodies.length, last = this.positions.length - n;
    const here = Math.min(k * n, last), next = Math.min(here + n, last);
    const q = this.bodies.map((_, j) =>
      (1 - share) * this.positions[here + j] + share * this.positions[next + j]);
    return q.every(Number.isFinite) ? q : null;
  }

  poses(q) {
    const poses = [];
    this.bodies.forEach(({parent, R, p, axis, prismatic}, i) => {
      const from = parent < 0 ? BASE : poses[parent];
      const away = prismatic ? turned(R, axis.map((x) => x * q[i])) : [0, 0, 0];
      const at = turned(from.R, p.map((x, j) => x + away[j]));
      const joint = prismatic ? R : times(R, rotation(axis, q[i]));
      poses.push({R: times(from.R, joint), p: from.p.map((x, j) => x + at[j])});
    });
    return poses;
  }

  toolPoint(poses) {
    const {R, p} = poses[this.tool.body] ?? BASE;
    return turned(R, this.tool.p).map((x, j) => x + p[j]);
  }

  trail(count) {
    const points = [];
    for (let k = 0; k < count; k++) {
      const q = this.joints(k, 0);
      points.push(q && this.toolPoint(this.poses(q)));
    }
    return points;
  }
}

// ---- drawing -------------------------------------------------------------------------------

class Painter {
  constructor(canvas) {
    const gl = canvas.getContext('webgl2', {antialias: true, preserveDrawingBuffer: true});
    if (!gl) throw new Error('this browser does not support WebGL 2: the arm cannot be shown');
    Object.assign(this, {gl, surface: this.program(gl, SURFACE), line: this.program(gl, LINE)});
    gl.enable(gl.DEPTH_TEST);
    gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  program(gl, source) {
    const program = gl.createProgram();
    for (const kind of ['vertex', 'fragment']) {
      const shader = gl.createShader(gl[`${kind.toUpperCase()}_SHADER`]);
      gl.shaderSource(shader, source[kind]);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) {
      throw new Error(gl.getProgramInfoLog(program));
    }
    return program;
  }

  // Upload vertex attributes of a program, given as pairs of name and component count.
  array(program, values, attributes, faces) {
    const gl = this.gl, array = gl.createVertexArray();
    gl.bindVertexArray(array);
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    const stride = 4 * attributes.reduce((sum, [, count]) => sum + count, 0);
    let offset = 0;
    for (const [name, count] of attributes) {
      const place = gl.getAttribLocation(program, name);
      gl.enableVertexAttribArray(place);
      gl.vertexAttribPointer(place, count, gl.FLOAT, false, stride, offset);
      offset += 4 * count;
    }
    if (faces) {
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, faces, gl.STATIC_DRAW);
    }
    gl.bindVertexArray(null);
    return {array, count: faces ? faces.length : values.length * 4 / stride};
  }

  shape({body, colour, vertices, faces}) {
    const points = numbers(vertices), corners = numbers(faces, Uint32Array);
    const normals = smoothNormals(points, corners), both = new Float32Array(2 * points.length);
    for (let i = 0; i < points.length; i += 3) {
      both.set(points.subarray(i, i + 3), 2 * i);
      both.set(normals.subarray(i, i + 3), 2 * i + 3);
    }
    const attributes = [['point', 3], ['normal', 3]];
    const corner = box(points), drawn = this.array(this.surface, both, attributes, corners);
    return {body, colour, corner, ...drawn};
  }

  segments(pairs) {
    const values = [], corners = [[-1, -1], [1, -1], [-1, 1], [-1, 1], [1, -1], [1, 1]];
    for (const [a, b] of pairs) for (const corner of corners) values.push(...a, ...b, ...corner);
    const attributes = [['a', 3], ['b', 3], ['corner', 2]];
    return this.array(this.line, new Float32Array(values), attributes);
  }

  begin(view, width, height) {
    const gl = this.gl;
    this.view = view;
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(this.line);
    gl.uniform2f(gl.getUniformLocation(this.line, 'size'), width, height);
    gl.useProgram(this.surface);
    gl.uniformMatrix4fv(gl.getUniformLocation(this.surface, 'view'), false, view);
  }

  drawLines({array, count}, colour, width, share = 1, pose = BASE) {
    const gl = this.gl, view = product(this.view, matrix(pose));
    gl.useProgram(this.line);
    gl.uniformMatrix4fv(gl.getUniformLocation(this.line, 'view'), false, view);
    gl.uniform4fv(gl.getUniformLocation(this.line, 'colour'), colour);
    gl.uniform1f(gl.getUniformLocation(this.line, 'w'), width * devicePixelRatio);
    gl.enable(gl.BLEND);
    gl.bindVertexArray(array);
    gl.drawArrays(gl.TRIANGLES, 0, 6 * Math.round(share * count / 6));
    gl.disable(gl.BLEND);
  }

  drawShapes(shapes, poses, tint) {
    const gl = this.gl;
    gl.useProgram(this.surface);
    for (const {body, colour, array, count} of shapes) {
      gl.uniformMatrix4fv(gl.getUniformLocation(this.surface, 'pose'), false,
                          matrix(poses[body] ?? BASE));
      gl.uniform4fv(gl.getUniformLocation(this.surface, 'colour'), tint ?? [...colour.slice(0, 3), 1]);
      gl.bindVertexArray(array);
      gl.drawElements(gl.TRIANGLES, count, gl.UNSIGNED_INT, 0);
    }
  }

  // Draw only the nearest surface of a ghost: first its depth, then its colour.
  drawGhost(shapes, poses, tint) {
    const gl = this.gl;
    gl.colorMask(false, false, false, false);
    this.drawShapes(shapes, poses, tint);
    gl.colorMask(true, true, true, true);
    gl.depthFunc(gl.LEQUAL);
    gl.enable(gl.BLEND);
    this.drawShapes(shapes, poses, tint);
    gl.disable(gl.BLEND);
    gl.depthFunc(gl.LESS);
  }
}

// Return the eight corners of the bounding box of points.
function box(points) {
  const low = [Infinity, Infinity, Infinity], high = low.map((x) => -x);
  points.forEach((x, i) => {
    low[i % 3] = Math.min(low[i % 3], x);
    high[i % 3] = Math.max(high[i % 3], x);
  });
  return [0, 1, 2, 3, 4, 5, 6, 7].map((k) => low.map((x, j) => (k >> j & 1 ? high[j] : x)));
}

function smoothNormals(points, corners) {
  const normals = new Float32Array(points.length);
  const at = (i) => [points[3 * i], points[3 * i + 1], points[3 * i + 2]];
  for (let f = 0; f < corners.length; f += 3) {
    const [a, b, c] = [at(corners[f]), at(corners[f + 1]), at(corners[f + 2])];
    const normal = cross(b.map((x, j) => x - a[j]), c.map((x, j) => x - a[j]));
    for (let i = f; i < f + 3; i++) normal.forEach((x, j) => { normals[3 * corners[i] + j] += x; });
  }
  return normals;
}

// ---- the camera ----------------------------------------------------------------------------

class Camera {
  constructor(centre, radius) {
    // At 2.7 radii the lens of view() takes in the whole sphere: sin(atan(1 / 2.5)) > 1 / 2.7.
    this.home = {yaw: -0.9, pitch: 0.42, distance: 2.7 * radius, centre};
    this.reset();
  }

  reset() { Object.assign(this, this.home); }

  axes() {
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw),
                              Math.cos(this.pitch), Math.sin(this.pitch)];
    const back = [cp * cy, cp * sy, sp], right = unit(cross([0, 0, 1], back));
    return {right, up: cross(back, right), back};
  }

  turn(dx, dy) {
    this.yaw -= 0.008 * dx;
    this.pitch = Math.min(1.5, Math.max(-1.5, this.pitch + 0.008 * dy));
  }

  shift(dx, dy, height) {
    const {right, up} = this.axes(), scale = 0.8 * this.distance / height;
    this.centre = this.centre.map((x, i) => x + scale * (dy * up[i] - dx * right[i]));
  }

  view(aspect) {
    const {right, up, back} = this.axes(), d = this.distance, near = 0.02 * d, far = 20 * d;
    const eye = this.centre.map((x, i) => x + d * back[i]), f = 2.5 * Math.min(1, aspect);
    const look = [...[0, 1, 2].flatMap((i) => [right[i], up[i], back[i], 0]),
                  -dot(right, eye), -dot(up, eye), -dot(back, eye), 1];
    const lens = [f / aspect, 0, 0, 0, 0, f, 0, 0, 0, 0, (far + near) / (near - far), -1,
                  0, 0, 2 * far * near / (near - far), 0];
    return product(lens, look);
  }
}

// ---- the scene -----------------------------------------------------------------------------

class Scene {
  constructor(root, data) {
    Object.assign(this, {root, data, canvas: root.querySelector('canvas'), now: 0, moving: false});
    [this.slider, this.button, this.output, this.speed, this.loop] =
      ['input', '.play', 'output', 'select', '.loop'].map((name) => root.querySelector(name));
    this.time = numbers(data.time);
    this.end = this.time.at(-1);
    this.slider.max = this.end;
    this.arms = data.motions.map((motion) => new Arm(data.bodies, data.tool, motion));
    this.painter = new Painter(this.canvas);
    this.shapes = data.shapes.map((shape) => this.painter.shape(shape));
    this.drawings = data.drawings.map((drawing) => this.drawing(drawing));
    this.surround();
    this.listen();
    this.mark();
    this.show(0);
  }

  // A surface or a line of the program, and its poses at the instants.
  drawing({vertices, faces, colour, line, poses}) {
    const flat = numbers(line), points = [];
    for (let i = 0; i < flat.length; i += 3) points.push([...flat.subarray(i, i + 3)]);
    return {
      colour,
      shapes: vertices ? [this.painter.shape({body: 0, colour, vertices, faces})] : [],
      line: this.painter.segments(points.slice(1).map((b, i) => [points[i], b])),
      poses: numbers(poses),
    };
  }

  drawProgram(k) {
    for (const {colour, shapes, line, poses} of this.drawings) {
      const at = Math.min(12 * k, poses.length - 12);  // one pose if it does not move
      const pose = {R: [...poses.subarray(at, at + 9)], p: [...poses.subarray(at + 9, at + 12)]};
      this.painter.drawLines(line, colour, 2, 1, pose);
      if (shapes.length) this.painter.drawGhost(shapes, [pose], colour);
    }
  }

  // Build the tool paths, and fit camera and floor to the tool paths and all surfaces.
  surround() {
    const points = [[0, 0, 0]], pairs = (list) =>
      list.slice(1).map((b, i) => [list[i], b]).filter(([a, b]) => a && b);
    for (const arm of this.arms) {
      const trail = arm.trail(this.time.length);
      arm.line = this.painter.segments(pairs(trail));
      points.push(...trail.filter(Boolean));
      for (let k = 0; k < this.time.length; k += 1 + (this.time.length >> 5)) {
        const q = arm.joints(k, 0), poses = q && arm.poses(q);
        for (const {body, corner} of q ? this.shapes : []) {
          const {R, p} = poses[body] ?? BASE;
          points.push(...corner.map((c) => turned(R, c).map((x, j) => x + p[j])));
        }
      }
    }
    const low = [0, 1, 2].map((j) => points.reduce((m, p) => Math.min(m, p[j]), 0));
    const high = [0, 1, 2].map((j) => points.reduce((m, p) => Math.max(m, p[j]), 0));
    const centre = low.map((x, j) => (x + high[j]) / 2);
    const away = points.map((p) => Math.hypot(...p.map((x, j) => x - centre[j])));
    const radius = away.reduce((m, x) => Math.max(m, x), 0.1);
    this.camera = new Camera(centre, radius);
    const step = 10 ** Math.floor(Math.log10(radius)), far = Math.ceil(1.6 * radius / step) * step;
    const floor = [];
    for (let x = -far; x <= far + step / 2; x += step) {
      floor.push([[x, -far, 0], [x, far, 0]], [[-far, x, 0], [far, x, 0]]);
    }
    this.floor = this.painter.segments(floor);
    this.axes = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map((axis) =>
      this.painter.segments([[[0, 0, 0.001 * radius], axis.map((x) => x * 0.3 * radius)]]));
  }

  listen() {
    const {canvas, camera} = this;
    const redraw = () => this.draw();
    this.slider.addEventListener('input', () => { this.stop(); this.show(+this.slider.value); });
    this.button.addEventListener('click', () => this.toggle());
    this.loop.addEventListener('click', () => this.repeat());
    canvas.addEventListener('pointerdown', (e) => canvas.setPointerCapture(e.pointerId));
    canvas.addEventListener('pointermove', (e) => {
      if (!e.buttons) return;
      if (e.shiftKey || e.buttons > 1) camera.shift(e.movementX, e.movementY, canvas.clientHeight);
      else camera.turn(e.movementX, e.movementY);
      redraw();
    });
    canvas.addEventListener('wheel', (e) => {
      if (!e.ctrlKey) return;
      e.preventDefault();
      camera.distance *= Math.exp(0.002 * e.deltaY);
      redraw();
    }, {passive: false});
    canvas.addEventListener('contextmenu', (e) => e.preventDefault());
    canvas.addEventListener('dblclick', () => { camera.reset(); redraw(); });
    new ResizeObserver(redraw).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  }

  // Add a tick to the slider for each event.
  mark() {
    for (const item of document.querySelectorAll('.events li')) {
      const share = (item.dataset.time - this.data.start) / this.end;
      if (!(share >= -1e-6 && share <= 1 + 1e-6)) continue;
      const tick = Object.assign(document.createElement('i'), {title: item.textContent});
      tick.style.left = `${100 * share}%`;
      this.slider.parentElement.append(tick);
    }
  }

  toggle() { if (this.moving) this.stop(); else this.play(); }

  // Go to an adjacent instant.
  step(by) {
    this.stop();
    const [k, share] = this.place(), whole = share > 0.999 ? k + 1 : k;
    const to = by > 0 ? whole + 1 : share > 0.001 && share <= 0.999 ? k : whole - 1;
    this.show(this.time[Math.min(this.time.length - 1, Math.max(0, to))]);
  }

  repeat() {
    this.loop.setAttribute('aria-pressed', String(this.loop.ariaPressed !== 'true'));
  }

  play() {
    this.moving = true;
    this.button.textContent = '❚❚';
    if (this.now >= this.end) this.now = 0;
    let last = performance.now();
    const step = (instant) => {
      if (!this.moving) return;
      const now = this.now + Math.max(0, instant - last) / 1000 * this.speed.value;
      last = instant;
      this.show(Math.min(now, this.end));
      if (this.now >= this.end && this.loop.ariaPressed === 'true') this.show(0);
      if (this.now >= this.end) this.stop();
      else requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  stop() {
    this.moving = false;
    this.button.textContent = '▶';
  }

  // Show an instant, s since the first one.
  show(now) {
    this.now = Math.min(this.end, Math.max(0, now));
    this.slider.value = this.now;
    const instant = this.data.start + this.now;
    this.output.textContent = `${(instant - this.data.origin).toFixed(2)} s`;
    this.draw();
    showCursors(instant);
  }

  place() {
    let low = 0, high = this.time.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (this.time[middle] <= this.now) low = middle; else high = middle;
    }
    const period = this.time[high] - this.time[low];
    return [low, period > 0 ? (this.now - this.time[low]) / period : 0];
  }

  // Current body poses of an arm in the base frame; null if unknown.
  poses(arm = 0) {
    const q = this.arms[arm].joints(...this.place());
    return q && this.arms[arm].poses(q);
  }

  draw() {
    const {canvas, painter} = this, [k] = this.place(), scale = devicePixelRatio;
    const width = Math.round(canvas.clientWidth * scale);
    const height = Math.round(canvas.clientHeight * scale);
    if (!width || !height) return;
    if (canvas.width !== width || canvas.height !== height) {
      Object.assign(canvas, {width, height});
    }
    painter.begin(this.camera.view(width / height), width, height);
    const solid = [], ghosts = [];
    this.arms.forEach((arm, i) => (arm.ghost ? ghosts : solid).push([arm, this.poses(i)]));
    for (const [, poses] of solid) if (poses) painter.drawShapes(this.shapes, poses);
    painter.drawLines(this.floor, [0.5, 0.5, 0.5, 0.3], 1);
    this.axes.forEach((axis, i) =>
      painter.drawLines(axis, [0, 1, 2].map((j) => (i === j ? 0.85 : 0.2)).concat(1), 2.5));
    for (const arm of this.arms) {
      painter.drawLines(arm.line, rgba(arm.colour, 0.35), 1.5);
      painter.drawLines(arm.line, rgba(arm.colour), 2.5, k / Math.max(1, this.time.length - 1));
    }
    this.drawProgram(k);
    for (const [arm, poses] of ghosts) {
      if (poses) painter.drawGhost(this.shapes, poses, rgba(arm.colour, 0.35));
    }
  }
}
