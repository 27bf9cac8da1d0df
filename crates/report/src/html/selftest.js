// A page that tests itself: opened as report.html#selftest, it zooms, pans and shows a wait, and writes what came of it
// into the page as JSON. Errors are collected from the first script on.
"use strict";

const schedlab = { errors: [] };
window.addEventListener("error", (event) => schedlab.errors.push(String(event.message)));

window.addEventListener("load", () => {
  if (location.hash !== "#selftest") return;
  const told = {};
  const strips = schedlab.strips;
  if (strips) {
    strips.whole();
    told.runs = strips.count;
    told.whole = strips.view();
    told.colours = strips.colours();
    const begun = performance.now();
    for (let n = 0; n < 20; n++) strips.redraw();
    told.frame_ms = (performance.now() - begun) / 20;
    strips.zoom(8, 0.5);
    told.zoomed = strips.view();
    strips.pan(0.25);
    told.panned = strips.view();
    const kept = strips.pixels();
    strips.forget();
    const whole = strips.pixels();
    told.keptDiffers = kept.reduce((most, run, n) => run.reduce((m, byte, at) => Math.max(m, Math.abs(byte - whole[n][at])), most), 0);
    told.coloursZoomed = strips.colours();
    // So narrow a view that a bin of the counts is wider than a pixel: a CPU is busy or is not.
    strips.zoom(1e9, 0.5);
    told.countsWhole = strips.counts().map(({ running, waiting }) => [...running, ...waiting].filter((n) => !Number.isInteger(+n.toFixed(6))).length);
    told.countsWidth = strips.counts()[0].running.length;
    const first = document.querySelector("button.place");
    if (first) {
      first.click();
      told.wait = strips.wait();
      told.at = strips.view();
      told.marks = document.querySelectorAll(".strip .wait").length;
    }
    // Late in a long run, a view of 2 us and one of a second.
    told.times = [strips.told(3.5e9 + 1234, 2), strips.told(3.5e9 + 1234, 1e6), strips.told(1500, 1)];
    strips.point(0, 0.5, 0);
    told.readout = document.querySelector(".readout").textContent;
  }
  told.errors = schedlab.errors;
  const out = document.createElement("pre");
  out.id = "selftest";
  out.hidden = true;
  out.textContent = JSON.stringify(told);
  document.body.append(out);
});
