// Under a curve stands what its lines say where the pointer is. Details are open on paper.
"use strict";

for (const figure of document.querySelectorAll("figure[data-points]")) {
  const svg = figure.querySelector("svg");
  const hair = figure.querySelector(".hair");
  const told = figure.querySelector(".told");
  const points = JSON.parse(figure.dataset.points);
  const usual = told.textContent;

  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    let near = 0;
    points.x.forEach((at, n) => {
      if (Math.abs(at - x) < Math.abs(points.x[near] - x)) near = n;
    });
    hair.setAttribute("x1", points.x[near]);
    hair.setAttribute("x2", points.x[near]);
    hair.style.visibility = "visible";
    const lines = points.lines.map((line) => `${line.name} ${line.told[near] || "-"}`);
    told.textContent = `${points.names[near]}: ${lines.join(", ")}`;
  });
  svg.addEventListener("pointerleave", () => {
    hair.style.visibility = "hidden";
    told.textContent = usual;
  });
}

window.addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not(.long)")) part.open = true;
});
