// The figures: drawn when they are near, all of them before print; a model that is pointed at stands out in each.
{
  const views = [];
  const content = unpack("packed-figures").then(text => JSON.parse(text));
  // The library is a script of the page like the others, known by its hash, but packed.
  const library = unpack("packed-library").then(text => {
    const script = document.createElement("script");
    script.textContent = text;
    document.head.append(script);
  });
  let chosen = "";

  const tables = new Map();
  const rowsOf = (columns, name) => {
    if (!tables.has(name)) {
      const keys = Object.keys(columns);
      const rows = (columns[keys[0]] ?? []).map((_, place) => Object.fromEntries(keys.map(key => [key, columns[key][place]])));
      tables.set(name, rows);
    }
    return tables.get(name);
  };

  const draw = async place => {
    if (place.dataset.drawn) return;
    place.dataset.drawn = "yes";
    try {
      const {figures, data, scales} = await content;
      await library;
      const figure = figures[place.dataset.spec];
      // A list of one name stands for the board's list of that name.
      const spec = JSON.parse(JSON.stringify(figure.spec), (key, value) =>
        Array.isArray(value) && value.length === 1 && Object.hasOwn(scales, value[0]) ? scales[value[0]] : value);
      spec.datasets = {...spec.datasets, [figure.data]: rowsOf(data[figure.data], figure.data)};
      const {view} = await vegaEmbed(place, spec, {actions: false, renderer: "svg", ast: true});
      if (spec.params?.some(param => param.name === "highlight")) {
        views.push(view);
        if (shown) view.signal("highlight", shown).runAsync();
        view.addEventListener("pointermove", (event, item) => highlight(item?.datum?.model ?? ""));
        view.addEventListener("pointerout", () => highlight(""));
      }
    } catch (error) {
      place.textContent = "This figure could not be drawn; its table holds the same numbers.";
      console.error(error);
    }
  };

  // The table of a figure is written when it is opened.
  const number = (value, digits) => value.toFixed(digits).replace(/^-(0\.0*)$/, "$1");
  const text = (key, value, titles) => {
    if (value === null || value === undefined) return "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    if (typeof value === "string") return key === "task" ? titles[value] ?? value : value;
    return Number.isInteger(value) && key !== "share" ? `${value}` : number(value, key === "gap" ? 1 : 3);
  };
  const tabulate = async box => {
    if (box.dataset.written) return;
    box.dataset.written = "yes";
    const {figures, data, titles} = await content;
    const {columns, data: name} = figures[box.dataset.table];
    const table = document.createElement("table");
    table.className = "plain";
    const head = table.createTHead().insertRow();
    for (const key of columns) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = key.replaceAll("_", " ");
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of rowsOf(data[name], name)) {
      const line = body.insertRow();
      for (const key of columns) line.insertCell().textContent = text(key, row[key], titles);
    }
    const [frame, scroll] = [document.createElement("div"), document.createElement("div")];
    frame.className = "frame";
    scroll.className = "scroll";
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", `Numbers of ${box.dataset.table.replaceAll("_", " ")}`);
    scroll.append(table);
    frame.append(scroll);
    box.append(frame);
    arrivals.forEach(arrive => arrive(box));
  };

  let shown = "";
  const highlight = name => {
    const model = (name || chosen).replace(/\.control$/, "");
    if (model === shown) return;
    shown = model;
    for (const view of views) view.signal("highlight", model).runAsync();
    for (const row of document.querySelectorAll("tr[data-model], .legend button")) {
      row.classList.toggle("lit", model !== "" && row.dataset.model === model);
    }
  };
  const pointed = ".legend button, table.board tr[data-model]";
  for (const [kind, light] of [["pointerover", true], ["focusin", true], ["pointerout", false], ["focusout", false]]) {
    addEventListener(kind, event => {
      const place = event.target.closest?.(pointed);
      if (place) highlight(light ? place.dataset.model : "");
    });
  }
  addEventListener("click", event => {
    const button = event.target.closest(".legend button");
    if (!button) return;
    chosen = chosen === button.dataset.model ? "" : button.dataset.model;
    press(document);
    highlight(chosen);
  });
  const press = root => root.querySelectorAll(".legend button").forEach(other => {
    other.setAttribute("aria-pressed", other.dataset.model === chosen);
  });

  const near = new IntersectionObserver(seen => {
    for (const one of seen) if (one.isIntersecting) { near.unobserve(one.target); draw(one.target); }
  }, {rootMargin: "600px"});
  const arrive = root => {
    root.querySelectorAll(".chart").forEach(place => near.observe(place));
    root.querySelectorAll("details[data-table]").forEach(box => box.addEventListener("toggle", () => { if (box.open) tabulate(box); }));
    press(root);
  };
  arrivals.push(arrive);
  arrive(document);
  // What is far below follows one by one while nothing else is to do; so do tasks that are not chosen, unless their
  // tables are long.
  const rest = async () => {
    if (!("many" in document.documentElement.dataset)) await fillAll(document.getElementById("tasks").parentElement);
    for (const place of document.querySelectorAll(".chart")) {
      await draw(place);
      await new Promise(done => setTimeout(done));
    }
    document.documentElement.dataset.drawn = performance.now().toFixed();
  };
  addEventListener("load", () => setTimeout(rest, 200));
}
