// Tracks of CPUs, and the pixels that they become.
//
// A track is a list of pieces, each with its begin (ns) and a value, packed as compare/src/strips/track.rs says. A pixel has
// the mean of the colours of what happened in it. A view that has moved by whole pixels keeps those that it had, and
// only what came into view is drawn: a strip of 224 CPUs has more pieces than a frame has time for.
"use strict";

schedlab.tracks = (() => {
  function unpack(text, cpus, end) {
    const raw = atob(text);
    let at = 0;
    const number = () => {
      let n = 0;
      let scale = 1;
      let byte;
      do {
        byte = raw.charCodeAt(at++);
        n += (byte & 127) * scale;
        scale *= 128;
      } while (byte >= 128);
      return n;
    };
    const tracks = [];
    for (let cpu = 0; cpu < cpus; cpu++) {
      const count = number();
      const starts = new Float64Array(count + 1);
      const values = new Uint32Array(count);
      let time = 0;
      for (let n = 0; n < count; n++) {
        time += number();
        starts[n] = time;
        values[n] = number();
      }
      starts[count] = end;
      tracks.push({ starts, values });
    }
    return tracks;
  }

  // The piece that a time lies in.
  function find(track, time) {
    let low = 0;
    let high = track.values.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (track.starts[middle] <= time) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // Walks the pieces of a track from `from` on over a row of pixels, `scale` of them an ns. `of` gives what a value stands
  // for, or nothing; `add` gets each pixel that a piece lies in, with the share that the piece has of it.
  function walk(track, of, from, width, scale, add) {
    const { starts, values } = track;
    const until = from + width / scale;
    for (let n = find(track, from); n < values.length && starts[n] < until; n++) {
      const what = of(values[n]);
      if (!what) continue;
      const a = Math.max(0, (starts[n] - from) * scale);
      const b = Math.min(width, (starts[n + 1] - from) * scale);
      let x = Math.floor(a);
      if (b <= x + 1) {
        if (x < width) add(x, b - a, what);
        continue;
      }
      add(x, x + 1 - a, what);
      for (x++; x + 1 <= b; x++) add(x, 1, what);
      if (b > x) add(x, b - x, what);
    }
  }

  // Sums the colours of a track's pieces: red, green, blue and share of each pixel.
  function spread(track, colourOf, row, from, width, scale) {
    walk(track, colourOf, from, width, scale, (x, share, rgb) => {
      const at = 4 * x;
      row[at] += share * rgb[0];
      row[at + 1] += share * rgb[1];
      row[at + 2] += share * rgb[2];
      row[at + 3] += share;
    });
  }

  // The mean in each pixel of what all tracks have together; `of` gives the number that a value counts for.
  function totals(tracks, of, from, width, scale) {
    const sum = new Float64Array(width);
    for (const track of tracks) walk(track, of, from, width, scale, (x, share, number) => (sum[x] += share * number));
    return sum;
  }

  // Lays a row of sums over a row of the image, and empties it.
  function lay(row, image, first, width) {
    for (let x = 0; x < width; x++) {
      const share = Math.min(1, row[4 * x + 3]);
      if (share === 0) continue;
      const at = first + 4 * x;
      for (let c = 0; c < 3; c++) image[at + c] = image[at + c] * (1 - share) + row[4 * x + c];
    }
    row.fill(0);
  }

  // An image of CPUs, a row each: `layers` are lists of tracks by CPU with the colour of a value, one above the other.
  function paint(layers, cpus, idle, from, width, scale) {
    const image = new ImageData(width, cpus);
    // Bytes in memory are red, green, blue, opaque.
    new Uint32Array(image.data.buffer).fill(((255 << 24) | (idle[2] << 16) | (idle[1] << 8) | idle[0]) >>> 0);
    const row = new Float32Array(4 * width);
    for (let cpu = 0; cpu < cpus; cpu++) {
      for (const { tracks, colourOf } of layers) {
        spread(tracks[cpu], colourOf, row, from, width, scale);
        lay(row, image.data, 4 * width * cpu, width);
      }
    }
    return image;
  }

  // A strip's pixels. `paint(first, width)` gives those columns of a view; views of one key differ by their time only.
  class Pixels {
    constructor() {
      this.canvas = document.createElement("canvas");
      this.view = null;
    }
    show(view, paint) {
      const { canvas, view: old } = this;
      const { from, length, width, height, key } = view;
      const context = canvas.getContext("2d");
      this.view = view;
      const same = old && old.key === key && old.width === width && Math.abs(old.length - length) < 1e-9 * length;
      const moved = same ? ((from - old.from) / length) * width : NaN;
      const by = Math.round(moved);
      if (!(Math.abs(moved - by) < 0.001 && Math.abs(by) < width)) {
        canvas.width = width;
        canvas.height = height;
        context.putImageData(paint(0, width), 0, 0);
      } else if (by !== 0) {
        context.drawImage(canvas, -by, 0);
        const first = by > 0 ? width - by : 0;
        context.putImageData(paint(first, Math.abs(by)), first, 0);
      }
      return canvas;
    }
  }

  return { unpack, find, paint, totals, Pixels };
})();
