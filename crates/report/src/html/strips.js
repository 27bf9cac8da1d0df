// Cores x time: one strip for each run, a row for each CPU, above each other with one time axis and one cursor.
//
// The data are tracks (pixels.js). A pixel has the mean of the colours of what happened in it, so a strip shows the same
// at every zoom, only finer.
// All state is `view` (begin and end, ns), `by` (what colours mean), `rows` (height of a row) and `shown` (a wait).
"use strict";

(() => {
  const source = document.getElementById("strips-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const WHY_BITS = 16; // values of `who`: 16 times (task + 1), plus why the stay ended
  const SHORTEST = 2000; // the narrowest view, ns
  const LISTED = 12; // groups that the legend names
  const COUNTS = 64; // height of the curves under a strip, CSS pixels

  const { unpack, find, paint, totals, Pixels } = schedlab.tracks;
  const runs = data.runs.map((run) => ({
    ...run,
    who: unpack(run.who, run.cpus, run.end),
    depth: unpack(run.depth, run.cpus, run.end),
  }));
  const end = Math.max(...runs.map((run) => run.end));

  // --- state ---------------------------------------------------------------------------------------------------

  const state = { from: 0, until: end, by: "group", rows: 0, shown: null, moved: false };
  const element = (name) => document.getElementById(name);
  const strips = [...document.querySelectorAll(".strip")].map((box, n) => ({
    run: runs[n],
    box,
    cpus: box.querySelector("canvas.cpus"),
    pixels: new Pixels(),
    counts: box.querySelector("canvas.counts"),
    over: box.querySelector(".over"),
    cursor: box.querySelector(".cursor"),
  }));
  const gutter = () => (strips[0].box.clientWidth < 600 ? 34 : 52);
  const innerWidth = (width) => Math.max(1, Math.floor(width - gutter()));
  const fineWidth = (width) => Math.round(innerWidth(width) * (window.devicePixelRatio || 1));
  const most = Math.max(...runs.map((run) => run.cpus));
  const usualRows = Math.max(2, Math.min(14, Math.floor(300 / most)));
  const rowHeight = () => state.rows || usualRows;

  function look(from, until) {
    const length = Math.min(end, Math.max(SHORTEST, until - from));
    state.from = Math.max(0, Math.min(end - length, from));
    state.until = state.from + length;
    state.moved = true;
    later();
  }
  const zoom = (factor, place) => {
    const length = state.until - state.from;
    const at = state.from + place * length;
    const wanted = Math.min(end, Math.max(SHORTEST, length / factor));
    look(at - place * wanted, at + (1 - place) * wanted);
  };
  // Moves by whole pixels, so that those in view can be kept.
  const pan = (share) => {
    const length = state.until - state.from;
    const width = fineWidth(strips[0].box.clientWidth);
    const by = (Math.round(share * width) / width) * length;
    const from = Math.max(0, Math.min(end - length, state.from + by));
    Object.assign(state, { from, until: from + length, moved: true });
    later();
  };

  // --- colours -------------------------------------------------------------------------------------------------

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function rgbOf(text) {
    const n = parseInt(text.slice(1), 16);
    return [n >> 16, (n >> 8) & 255, n & 255];
  }
  // A colour by its place in a list: hues as far apart as possible.
  function hue(n) {
    const h = ((n * 137.508 + 205) % 360) / 60;
    const light = (dark.matches ? 0.62 : 0.5) + 0.09 * ((n % 3) - 1);
    const chroma = (1 - Math.abs(2 * light - 1)) * 0.68;
    const x = chroma * (1 - Math.abs((h % 2) - 1));
    const low = light - chroma / 2;
    const rgb = [[chroma, x, 0], [x, chroma, 0], [0, chroma, x], [0, x, chroma], [x, 0, chroma], [chroma, 0, x]][Math.floor(h)];
    return rgb.map((c) => Math.round(255 * (c + low)));
  }
  // Groups have the variants' colours first, which people with colour blindness can tell apart.
  const FIRST = ["--v5", "--v2", "--v4", "--v7", "--v1", "--v3"];
  const groupHue = (n) => (n < FIRST.length ? rgbOf(css(FIRST[n])) : hue(n));
  const waitColours = () => (dark.matches ? ["#f2c14e", "#f2813d", "#ef5350"] : ["#f5b700", "#e8630a", "#c1121f"]).map(rgbOf);
  const background = () => (dark.matches ? [110, 118, 127] : [150, 158, 166]);

  // The colour of each task of a run by its number plus 1; null: as if idle.
  function tableOf(run) {
    const plain = rgbOf(css("--v0"));
    return [null].concat(
      run.tasks.map((name, task) => {
        const group = run.groups[run.groupOf[task]];
        if (group.background) return background();
        if (state.by === "task") return hue(run.hueOf[task]);
        if (state.by === "group") return groupHue(group.hue);
        return plain;
      }),
    );
  }

  // --- drawing -------------------------------------------------------------------------------------------------

  // What is drawn of a run, one above the other, and the key of what colours mean.
  function layersOf(run) {
    const key = `${state.by} ${dark.matches}`;
    if (run.drawn?.key === key) return run.drawn;
    const colours = tableOf(run);
    const waits = waitColours();
    const layers = [{ tracks: run.who, colourOf: (value) => colours[Math.floor(value / WHY_BITS)] }];
    if (state.by === "state") layers.push({ tracks: run.depth, colourOf: (depth) => waits[Math.min(depth, 3) - 1] });
    run.drawn = { key, layers, idle: rgbOf(css("--idle")) };
    return run.drawn;
  }

  // Makes a canvas as large as its box, in the screen's own pixels; gives its context in CSS pixels.
  function fresh(canvas, height) {
    const width = canvas.parentElement.clientWidth;
    const ratio = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = '11px system-ui, "DejaVu Sans", sans-serif';
    return { context, width, height };
  }

  function drawCpus(strip) {
    const { run, cpus } = strip;
    const rows = rowHeight();
    const { context, width, height } = fresh(cpus, rows * run.cpus);
    const left = gutter();
    const inner = innerWidth(width);
    const fine = fineWidth(width);
    const length = state.until - state.from;
    const scale = fine / length;
    const { key, layers, idle } = layersOf(run);
    const view = { from: state.from, length, width: fine, height: run.cpus, key };
    const image = strip.pixels.show(view, (first, columns) =>
      paint(layers, run.cpus, idle, view.from + first / scale, columns, scale),
    );
    context.imageSmoothingEnabled = false;
    context.drawImage(image, left, 0, inner, height);
    // Rows are told apart while there is room, and CPUs of different caches always.
    context.fillStyle = css("--page");
    for (let cpu = 1; cpu < run.cpus; cpu++) {
      const other = run.cache[cpu] !== run.cache[cpu - 1];
      if (rows >= 5 || other) context.fillRect(left, cpu * rows - (other ? 1 : 0.5), inner, other ? 2 : 1);
    }
    context.fillStyle = css("--dim");
    context.textAlign = "right";
    context.textBaseline = "middle";
    const every = Math.ceil(13 / rows);
    for (let cpu = 0; cpu < run.cpus; cpu += every) {
      const y = Math.max(6, (cpu + 0.5) * rows);
      if (cpu === 0 || y > 18) context.fillText(String(cpu), left - 5, y);
    }
    const warm = x(run.warmup, inner);
    if (warm > 0) {
      context.fillStyle = css("--page");
      context.globalAlpha = 0.45;
      context.fillRect(left, 0, Math.min(warm, inner), height);
      context.globalAlpha = 1;
    }
    Object.assign(strip.over.style, { left: `${left}px`, width: `${inner}px`, top: `${cpus.offsetTop}px` });
    strip.over.style.height = `${height + COUNTS}px`;
  }

  // Where a time is, CSS pixels from the begin of the plot.
  const x = (time, inner) => ((time - state.from) / (state.until - state.from)) * inner;

  // The mean of a count over a stretch of time, from the run's bins.
  function mean(run, counts, from, until) {
    const first = Math.max(0, Math.floor(from / run.width));
    const last = Math.min(counts.length - 1, Math.max(first, Math.ceil(until / run.width) - 1));
    let sum = 0;
    for (let n = first; n <= last; n++) sum += counts[n];
    return last >= first ? sum / (last - first + 1) : 0;
  }

  // By pixel: tasks that run, tasks that wait, and how much of the time a CPU was idle beside one. Where a pixel is
  // narrower than the bins of the counts, the tracks themselves are counted, unless their bins are wider still.
  function countsOf(run, inner) {
    const step = (state.until - state.from) / inner;
    const binned = (list) => Float64Array.from({ length: inner }, (_, px) => mean(run, list, state.from + px * step, state.from + (px + 1) * step) / 1000);
    const idle = run.idle ? binned(run.idle) : [];
    if (step >= run.width || run.bin >= run.width) return { running: binned(run.running), waiting: binned(run.waiting), idle };
    const own = (value) => value >= WHY_BITS && !run.groups[run.groupOf[Math.floor(value / WHY_BITS) - 1]].background;
    const count = (tracks, of) => totals(tracks, of, state.from, inner, 1 / step);
    return { running: count(run.who, (value) => (own(value) ? 1 : 0)), waiting: count(run.depth, (depth) => depth), idle };
  }

  function drawCounts(strip, counted, top) {
    const { context, width, height } = fresh(strip.counts, COUNTS);
    const left = gutter();
    const inner = Math.max(1, Math.floor(width - left));
    const base = height - 4;
    const room = base - 6;
    context.fillStyle = css("--mark");
    context.globalAlpha = 0.55;
    counted.idle.forEach((share, px) => share > 0 && context.fillRect(left + px, base - share * room, 1, share * room));
    context.globalAlpha = 1;
    [["--v0", counted.running], ["--v1", counted.waiting]].forEach(([colour, list]) => {
      context.strokeStyle = css(colour);
      context.lineWidth = 1.4;
      context.beginPath();
      for (let px = 0; px < inner; px++) context.lineTo(left + px, base - (list[px] / top) * room);
      context.stroke();
    });
    context.fillStyle = css("--dim");
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(String(Math.round(top * 10) / 10), left - 5, 8);
    context.fillText("0", left - 5, base - 3);
    context.fillStyle = css("--line");
    context.fillRect(left, base, inner, 1);
  }

  const unitOf = (ns) => [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([unit]) => Math.abs(ns) >= unit) || [1, "ns"];
  // A time of which differences of `finest` can be read.
  function told(ns, finest) {
    const [unit, name] = unitOf(ns);
    const digits = Math.max(0, Math.ceil(Math.log10(unit / Math.max(1, finest))));
    return `${+(ns / unit).toFixed(digits)} ${name}`;
  }
  // A length: four digits behind the point say enough.
  const duration = (ns) => told(ns, unitOf(ns)[0] / 1e4);
  // A point in time: a thousandth of the view can be read, however late it is.
  const moment = (ns) => told(ns, Math.min(unitOf(ns)[0] / 1e4, (state.until - state.from) / 1000));

  function drawAxis() {
    const { context, width } = fresh(element("strips-axis"), 22);
    const left = gutter();
    const inner = Math.max(1, Math.floor(width - left));
    const raw = (state.until - state.from) / Math.max(2, inner / 110);
    const decade = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((m) => m * decade).find((s) => s >= raw);
    context.fillStyle = css("--dim");
    context.textAlign = "center";
    context.textBaseline = "top";
    for (let time = Math.ceil(state.from / step) * step; time <= state.until; time += step) {
      const at = left + x(time, inner);
      context.fillRect(at, 0, 1, 5);
      if (at < width - 24) context.fillText(told(time, Math.min(step, unitOf(time)[0] / 1e4)), at, 7);
    }
    const where = element("strips-where");
    where.style.left = `${(100 * state.from) / end}%`;
    where.style.width = `${(100 * (state.until - state.from)) / end}%`;
    element("strips-range").textContent = `${duration(state.until - state.from)} from ${moment(state.from)} on`;
  }

  function drawMarks() {
    const rows = rowHeight();
    for (const strip of strips) {
      strip.over.querySelectorAll(".wait").forEach((mark) => mark.remove());
      if (!state.shown || runs[state.shown.run] !== strip.run) continue;
      const wait = strip.run.waits[state.shown.wait];
      const inner = strip.over.clientWidth;
      const mark = document.createElement("div");
      mark.className = "wait";
      const from = x(wait.from, inner);
      const width = Math.max(4, x(wait.from + wait.length, inner) - from);
      const height = Math.max(8, rows + 2);
      const top = wait.cpu * rows + (rows - height) / 2;
      Object.assign(mark.style, { left: `${from}px`, width: `${width}px`, top: `${top}px`, height: `${height}px` });
      strip.over.append(mark);
    }
  }

  function draw() {
    const counted = strips.map(({ run, box }) => countsOf(run, innerWidth(box.clientWidth)));
    // One scale for all runs.
    const top = counted.reduce((most, { running, waiting }) => [...running, ...waiting].reduce((a, b) => Math.max(a, b), most), 1);
    strips.forEach((strip, n) => {
      drawCpus(strip);
      drawCounts(strip, counted[n], top);
    });
    drawAxis();
    drawMarks();
  }

  let asked = 0;
  function later() {
    if (asked) return;
    asked = requestAnimationFrame(() => {
      asked = 0;
      draw();
      if (state.moved) remember();
    });
  }
  function now() {
    cancelAnimationFrame(asked);
    asked = 0;
    draw();
  }

  // --- the cursor ----------------------------------------------------------------------------------------------

  const exact = (run, time) => !run.bin || run.exact.some(([from, until]) => from <= time && time < until);

  // What a CPU of a run did at a time, in words.
  function tell(run, cpu, time) {
    if (time >= run.end) return "the run was over";
    const track = run.who[cpu];
    const at = find(track, time);
    const value = track.values[at];
    const task = Math.floor(value / WHY_BITS) - 1;
    const length = track.starts[at + 1] - track.starts[at];
    const queue = run.depth[cpu].values[find(run.depth[cpu], time)];
    const behind = queue ? `; ${queue} waiting there` : "";
    if (!exact(run, time)) {
      const who = task < 0 ? "idle" : run.tasks[task];
      return `${who}, maybe among others, in a bin of ${duration(run.bin)}${behind}`;
    }
    const why = value % WHY_BITS ? `; ended: ${data.why[(value % WHY_BITS) - 1]}` : "";
    const since = `${duration(length)} from ${moment(track.starts[at])} on`;
    return task < 0 ? `idle for ${since}${behind}` : `${run.tasks[task]} for ${since}${why}${behind}`;
  }

  function point(place, cpu) {
    const time = state.from + place * (state.until - state.from);
    const lines = [`${moment(time)}, CPU ${cpu}`];
    for (const strip of strips) {
      strip.cursor.style.left = `${place * strip.over.clientWidth}px`;
      strip.cursor.style.visibility = "visible";
      if (cpu < strip.run.cpus) lines.push(`${strip.run.name}: ${tell(strip.run, cpu, time)}`);
    }
    element("strips-readout").textContent = lines.join("\n");
  }

  // --- hands ---------------------------------------------------------------------------------------------------

  const pointers = new Map();

  function placeOf(strip, event) {
    const box = strip.over.getBoundingClientRect();
    const place = Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
    const cpu = Math.floor((event.clientY - box.top) / rowHeight());
    return { place, cpu: Math.max(0, Math.min(strip.run.cpus - 1, cpu)) };
  }

  function moved(strip, event) {
    const before = pointers.get(event.pointerId);
    const { place, cpu } = placeOf(strip, event);
    if (!before) return point(place, cpu);
    const others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, p]) => p);
    const width = strip.over.clientWidth;
    if (others.length === 1) {
      const gap = Math.max(20, Math.abs(event.clientX - others[0].x));
      const old = Math.max(20, Math.abs(before.x - others[0].x));
      zoom(gap / old, place);
    } else if (others.length === 0) {
      pan((before.x - event.clientX) / width);
    }
    pointers.set(event.pointerId, { x: event.clientX });
    point(place, cpu);
  }

  for (const strip of strips) {
    const { box } = strip;
    box.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      pointers.set(event.pointerId, { x: event.clientX });
      box.setPointerCapture(event.pointerId);
      moved(strip, event);
    });
    box.addEventListener("pointermove", (event) => moved(strip, event));
    for (const gone of ["pointerup", "pointercancel"]) {
      box.addEventListener(gone, (event) => pointers.delete(event.pointerId));
    }
    // The wheel scrolls the page, unless a strip has been clicked or a key says that it zooms.
    box.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== box) return;
        event.preventDefault();
        if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / strip.over.clientWidth);
        else zoom(Math.exp(-event.deltaY / 300), placeOf(strip, event).place);
      },
      { passive: false },
    );
    box.addEventListener("dblclick", (event) => zoom(4, placeOf(strip, event).place));
    box.addEventListener("keydown", (event) => {
      const act = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(2, 0.5), "=": () => zoom(2, 0.5), "-": () => zoom(0.5, 0.5), 0: () => look(0, end) }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  }

  const acts = {
    in: () => zoom(2, 0.5),
    out: () => zoom(0.5, 0.5),
    left: () => pan(-0.5),
    right: () => pan(0.5),
    whole: () => look(0, end),
    taller: () => resize(1.5),
    lower: () => resize(1 / 1.5),
  };
  function resize(factor) {
    state.rows = Math.max(1, Math.min(40, Math.round(rowHeight() * factor + (factor > 1 ? 0.5 : -0.5))));
    later();
  }
  for (const button of document.querySelectorAll("button[data-act]")) {
    button.addEventListener("click", () => acts[button.dataset.act]());
  }
  element("strips-by").addEventListener("change", (event) => {
    state.by = event.target.value;
    legend();
    later();
  });

  // --- waits ---------------------------------------------------------------------------------------------------

  function showWait(run, wait) {
    const { from, length, cpu } = runs[run].waits[wait];
    state.shown = { run, wait };
    const around = Math.max(length, 20000);
    look(from - around, from + length + around);
    now();
    document.querySelectorAll("tr.here").forEach((row) => row.classList.remove("here"));
    const row = document.querySelector(`button.place[data-run="${run}"][data-wait="${wait}"]`);
    if (row) row.closest("tr").classList.add("here");
    strips[run].box.scrollIntoView({ block: "nearest" });
    point((from + length / 2 - state.from) / (state.until - state.from), cpu);
  }
  for (const button of document.querySelectorAll("button.place")) {
    button.addEventListener("click", () => showWait(Number(button.dataset.run), Number(button.dataset.wait)));
  }

  // --- the legend, and views that can be cited -------------------------------------------------------------------

  function legend() {
    const key = element("strips-key");
    key.replaceChildren();
    const add = (rgb, words) => {
      const one = document.createElement("span");
      const box = document.createElement("i");
      box.style.background = `rgb(${rgb.join(",")})`;
      one.append(box, words);
      key.append(one);
    };
    add(rgbOf(css("--idle")), "idle");
    if (state.by === "group") {
      const names = new Map();
      runs.forEach((run) => run.groups.filter((group) => !group.background).forEach((group) => names.set(group.hue, group.name)));
      [...names].slice(0, LISTED).forEach(([number, name]) => add(groupHue(number), name));
      if (names.size > LISTED) key.append(`and ${names.size - LISTED} more`);
    }
    if (state.by === "state") {
      add(rgbOf(css("--v0")), "runs a task");
      ["one waits", "two wait", "three or more wait"].forEach((words, n) => add(waitColours()[n], words));
    }
    if (state.by === "task") key.append("each task has its own colour");
    add(background(), "the machine's own tasks");
  }

  function remember() {
    const view = `#t=${Math.round(state.from)},${Math.round(state.until)}&by=${state.by}`;
    if (location.protocol !== "about:") history.replaceState(null, "", view);
  }
  function recall() {
    const asked = /^#t=(\d+),(\d+)&by=(task|group|state)$/.exec(location.hash);
    if (!asked) return;
    state.by = asked[3];
    element("strips-by").value = state.by;
    look(Number(asked[1]), Number(asked[2]));
  }

  recall();
  legend();
  now();
  dark.addEventListener("change", () => {
    legend();
    later();
  });
  new ResizeObserver(later).observe(strips[0].box);

  // For the page's own test.
  schedlab.strips = {
    count: runs.length,
    told,
    counts: () => strips.map(({ run, box }) => countsOf(run, innerWidth(box.clientWidth))),
    view: () => [state.from, state.until],
    wait: () => state.shown && runs[state.shown.run].waits[state.shown.wait],
    whole: () => (look(0, end), now()),
    zoom: (factor, place) => (zoom(factor, place), now()),
    pan: (share) => (pan(share), now()),
    redraw: now,
    point: (strip, place, cpu) => point(place, cpu),
    pixels: () => strips.map(({ cpus }) => cpus.getContext("2d").getImageData(0, 0, cpus.width, cpus.height).data),
    forget: () => (strips.forEach(({ pixels }) => (pixels.view = null)), now()),
    colours: () =>
      strips.map(({ cpus }) => {
        const pixels = cpus.getContext("2d").getImageData(0, 0, cpus.width, cpus.height).data;
        return new Set(new Uint32Array(pixels.buffer)).size;
      }),
  };
})();
