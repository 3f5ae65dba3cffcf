// What is wrong with the layout of a part of the page, as it is shown: lines of text, none where nothing is cut and
// nothing overlaps.
place => {
  const root = document.querySelector(place);
  const all = selector => root.querySelectorAll(selector);
  const faults = [];
  const name = element => `${element.tagName.toLowerCase()}${element.id ? "#" + element.id : ""} "${element.textContent.trim().slice(0, 30)}"`;
  const seen = element => element.checkVisibility({visibilityProperty: true}) && !element.closest(".hidden, #tip");
  const box = element => element.getBoundingClientRect();
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1.5 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1.5;
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) faults.push(`the page is ${document.documentElement.scrollWidth} wide`);

  // Nothing stands beside the page, but for what scrolls in a frame that shows it, and nothing is cut within a box.
  for (const element of all("*")) {
    if (!seen(element) || element.closest("svg, script, #vg-tooltip-element")) continue;
    const own = box(element);
    if (!element.closest(".scroll") && (own.left < -0.5 || own.right > width + 0.5)) faults.push(`beside the page: ${name(element)}`);
    const style = getComputedStyle(element);
    if (style.overflowX !== "visible" && !element.matches(".scroll, .choices, input") && element.scrollWidth > element.clientWidth + 1) faults.push(`cut: ${name(element)}`);
    if (element.matches(".scroll") && element.scrollWidth > element.clientWidth + 1 && style.overflowX !== "auto") faults.push(`cannot be scrolled: ${name(element)}`);
  }

  // Neighbours stand apart.
  for (const parent of [root, ...all("header, main, section, .grid, .controls, .chips, .tabs, .legend, .downloads, nav ul, figure, .body, dl, .frame")]) {
    const children = [...parent.children].filter(child => seen(child) && !/absolute|fixed|sticky/.test(getComputedStyle(child).position));
    for (const [place, child] of children.entries()) {
      const other = children.slice(place + 1).find(after => meet(box(child), box(after)));
      if (other) faults.push(`overlap: ${name(child)} and ${name(other)}`);
    }
  }

  // What a cell holds stays in it.
  const range = document.createRange();
  for (const cell of all("th, td")) {
    if (!seen(cell)) continue;
    const outer = box(cell);
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      if (texts.currentNode.parentElement.closest(".hidden")) continue;
      range.selectNodeContents(texts.currentNode);
      const inner = range.getBoundingClientRect();
      if (inner.width && (inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1)) faults.push(`out of its cell: ${name(cell)}`);
    }
  }

  // Every text of a figure is whole and within it, and the labels of one axis stand apart.
  for (const svg of all(".chart svg.marks")) {
    if (!seen(svg)) continue;
    const whole = box(svg);
    for (const text of svg.querySelectorAll("text")) {
      const own = box(text);
      if (!text.textContent || getComputedStyle(text).opacity === "0" || text.getAttribute("opacity") === "0") continue;
      if (own.left < whole.left - 1 || own.right > whole.right + 1 || own.top < whole.top - 2 || own.bottom > whole.bottom + 2) faults.push(`out of its figure: ${name(text)}`);
      if (text.textContent.endsWith("…")) faults.push(`shortened: ${name(text)}`);
    }
    for (const axis of svg.querySelectorAll(".role-axis-label, .role-legend-label")) {
      const labels = [...axis.querySelectorAll("text")].filter(text => text.textContent && text.getAttribute("opacity") !== "0").map(text => [text, box(text)]);
      for (const [place, [text, own]] of labels.entries()) {
        const other = labels.slice(place + 1).find(([, after]) => meet(own, after));
        if (other) faults.push(`labels overlap: ${name(text)} and ${name(other[0])}`);
      }
    }
  }
  return [...new Set(faults)];
}
