// The figures: drawn when they are near, all of them before print; a model that is pointed at stands out in each.
{
  const views = [];
  const specs = unpack("specs").then(text => JSON.parse(text));
  let chosen = "";
  const draw = async place => {
    if (place.dataset.drawn) return;
    place.dataset.drawn = "yes";
    try {
      const spec = (await specs)[place.dataset.spec];
      const {view} = await vegaEmbed(place, spec, {actions: false, renderer: "svg", ast: true});
      if (spec.params?.some(param => param.name === "highlight")) {
        views.push(view);
        view.addEventListener("pointermove", (event, item) => highlight(item?.datum?.model ?? ""));
        view.addEventListener("pointerout", () => highlight(""));
      }
    } catch (error) {
      place.textContent = "This figure could not be drawn; its table holds the same numbers.";
      console.error(error);
    }
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

  for (const place of document.querySelectorAll(".legend button, table.board tr[data-model]")) {
    place.addEventListener("pointerenter", () => highlight(place.dataset.model));
    place.addEventListener("pointerleave", () => highlight(""));
    place.addEventListener("focusin", () => highlight(place.dataset.model));
    place.addEventListener("focusout", () => highlight(""));
  }
  const buttons = [...document.querySelectorAll(".legend button")];
  for (const button of buttons) {
    button.addEventListener("click", () => {
      chosen = chosen === button.dataset.model ? "" : button.dataset.model;
      buttons.forEach(other => other.setAttribute("aria-pressed", other.dataset.model === chosen));
      highlight(chosen);
    });
  }

  const charts = [...document.querySelectorAll(".chart")];
  const near = new IntersectionObserver(seen => {
    for (const one of seen) if (one.isIntersecting) { near.unobserve(one.target); draw(one.target); }
  }, {rootMargin: "600px"});
  charts.forEach(place => near.observe(place));
  // What is far below, or in a task that is not chosen, follows one by one while nothing else is to do.
  const rest = async () => {
    for (const place of charts) {
      await draw(place);
      await new Promise(done => setTimeout(done));
    }
    document.documentElement.dataset.drawn = performance.now().toFixed();
  };
  addEventListener("load", () => setTimeout(rest, 200));
}
