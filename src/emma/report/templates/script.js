for (const table of document.querySelectorAll("table.board")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = body => body.rows[0].cells[column].dataset.key;
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const by = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return down ? -by : by;
    };
    [...table.tBodies].sort(order).forEach(body => table.append(body));
    table.classList.toggle("by-rank", column === 0 && !down);
  }));
}
for (const place of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
  vegaEmbed(place, spec, {actions: false, renderer: "svg", ast: true}).catch(error => {
    place.textContent = "This figure could not be drawn; its table holds the same numbers.";
    console.error(error);
  });
}
