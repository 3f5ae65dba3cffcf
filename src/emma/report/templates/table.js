// The ranking: sorting, search, kinds and columns.
{
  const tables = [...document.querySelectorAll("table.board")];
  const search = document.getElementById("search");
  const kinds = [...document.querySelectorAll("input[name=kind]")];
  const choices = [...document.querySelectorAll("input[name=column]")];
  const start = new Map(tables.map(table => [table, [...table.tBodies[0].rows]]));

  const sort = (table, column, direction) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach(head => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", direction);
    const key = row => row.cells[column].dataset.key;
    const order = (a, b) => {
      const [x, y] = [key(a), key(b)];
      if (x === "" || y === "") return (x === "") - (y === "");
      const by = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return direction === "descending" ? -by : by;
    };
    table.tBodies[0].append(...[...start.get(table)].sort(order));
    table.classList.toggle("by-rank", heads[column].dataset.column === "rank" && direction === "ascending");
  };

  const filter = () => {
    const words = search.value.trim().toLowerCase().split(/\s+/);
    const chosen = new Set(kinds.filter(kind => kind.checked).map(kind => kind.value));
    let [seen, all] = [0, 0];
    for (const row of tables.flatMap(table => start.get(table))) {
      row.hidden = !(chosen.has(row.dataset.kind) && words.every(word => row.dataset.search.includes(word)));
      seen += !row.hidden;
      all += 1;
    }
    document.getElementById("shown").textContent = seen === all ? `${all} rows` : `${seen} of ${all} rows`;
  };

  const columns = () => {
    const hidden = new Set(choices.filter(choice => !choice.checked).map(choice => choice.value));
    for (const table of tables) {
      [...table.tHead.rows[0].cells].forEach((head, place) => {
        for (const row of table.rows) row.cells[place].hidden = hidden.has(head.dataset.column);
      });
    }
    dispatchEvent(new Event("resize"));
  };

  for (const table of tables) {
    [...table.tHead.rows[0].cells].forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const turned = {ascending: "descending", descending: "ascending"};
      sort(table, column, turned[head.getAttribute("aria-sort")] ?? head.dataset.first);
    }));
  }
  search.addEventListener("input", filter);
  kinds.forEach(kind => kind.addEventListener("change", filter));
  choices.forEach(choice => choice.addEventListener("change", columns));
  document.getElementById("reset").addEventListener("click", () => {
    search.value = "";
    [...kinds, ...choices].forEach(box => { box.checked = box.defaultChecked; });
    tables.forEach((table, place) => {
      if (place === 0) sort(table, 0, "ascending");
      else table.tBodies[0].append(...start.get(table));
    });
    filter();
    columns();
  });
  filter();
}
