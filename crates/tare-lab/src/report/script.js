"use strict";
// Downloads: the text of a hidden element as a file.
for (const button of document.querySelectorAll("button[data-from]")) {
  button.addEventListener("click", () => {
    const text = document.getElementById(button.dataset.from).textContent;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: button.dataset.kind }));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
}
// Flame graphs: the frame that was clicked, and all that lies under or over it, over the whole width.
for (const graph of document.querySelectorAll("svg.flame")) {
  const frames = [...graph.querySelectorAll("svg.frame")].map((element) => ({
    element,
    left: parseFloat(element.getAttribute("x")),
    wide: parseFloat(element.getAttribute("width")),
  }));
  graph.addEventListener("click", (event) => {
    const clicked = event.target.closest("svg.frame");
    const by = frames.find((frame) => frame.element === clicked);
    if (!by) return;
    for (const frame of frames) {
      const left = ((frame.left - by.left) / by.wide) * 100;
      const right = left + (frame.wide / by.wide) * 100;
      const from = Math.max(left, 0);
      const to = Math.min(right, 100);
      frame.element.style.display = to - from > 0.01 ? "" : "none";
      frame.element.setAttribute("x", `${from}%`);
      frame.element.setAttribute("width", `${Math.max(to - from, 0)}%`);
    }
  });
}
// For tests: all of the above ran.
document.documentElement.dataset.ready = "yes";
