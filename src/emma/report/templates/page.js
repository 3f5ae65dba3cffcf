// What is packed into the page, by the id of its place.
const unpack = id => {
  const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), character => character.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
};

// Parts that are filled when they are wanted. Who has to do with what stands in them joins `arrivals`.
const arrivals = [];
const parts = unpack("packed-parts").then(text => JSON.parse(text));
const filled = new Map();
const fill = place => {
  if (!filled.has(place)) {
    filled.set(place, parts.then(content => {
      place.innerHTML = content[place.dataset.part];
      arrivals.forEach(arrive => arrive(place));
    }));
  }
  return filled.get(place);
};
const fillAll = root => Promise.all([...root.querySelectorAll("[data-part]")].map(fill));

// Tabs, permalinks, explanations, edges of frames, and downloads.
{
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const select = tab => {
    for (const other of tabs) {
      const chosen = other === tab;
      const panel = document.getElementById(other.getAttribute("aria-controls"));
      other.setAttribute("aria-selected", chosen);
      other.tabIndex = chosen ? 0 : -1;
      panel.classList.toggle("off", !chosen);
      if (chosen) fillAll(panel);
    }
    dispatchEvent(new Event("resize"));
  };
  tabs.forEach((tab, place) => {
    tab.addEventListener("click", () => {
      select(tab);
      history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
    });
    tab.addEventListener("keydown", event => {
      const next = {ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1}[event.key];
      if (next === undefined) return;
      event.preventDefault();
      const other = tabs[(next + tabs.length) % tabs.length];
      other.focus();
      other.click();
    });
  });

  // A link to a task or to a model shows it first.
  const follow = () => {
    const place = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!place) return;
    const panel = place.closest("[role=tabpanel]");
    if (panel) select(document.getElementById(panel.getAttribute("aria-labelledby")));
    for (let box = place.closest("details"); box; box = box.parentElement.closest("details")) box.open = true;
    place.scrollIntoView();
  };
  addEventListener("hashchange", follow);

  // One box for all explanations: a title is shown to pointers alone, and never to the keyboard or a finger.
  const tip = document.getElementById("tip");
  const hide = () => { tip.hidden = true; };
  const show = event => {
    const place = event.target.closest?.("[data-tip]");
    if (!place) return hide();
    tip.textContent = place.dataset.tip;
    tip.hidden = false;
    const [box, own] = [place.getBoundingClientRect(), tip.getBoundingClientRect()];
    const below = box.bottom + 6 + own.height < innerHeight;
    tip.style.left = `${Math.max(8, Math.min(box.left, document.documentElement.clientWidth - own.width - 8))}px`;
    tip.style.top = `${below ? box.bottom + 6 : Math.max(8, box.top - own.height - 6)}px`;
  };
  arrivals.push(root => {
    for (const place of root.querySelectorAll("[title]")) {
      place.dataset.tip = place.title;
      place.setAttribute("aria-description", place.title);
      place.removeAttribute("title");
    }
  });
  addEventListener("pointerover", show);
  addEventListener("focusin", show);
  addEventListener("focusout", hide);
  addEventListener("keydown", event => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", hide, {passive: true, capture: true});

  // A frame says at which edge there is more to see.
  const edges = scroll => {
    const rest = scroll.scrollWidth - scroll.clientWidth - scroll.scrollLeft;
    scroll.parentElement.classList.toggle("more-left", scroll.scrollLeft > 1);
    scroll.parentElement.classList.toggle("more-right", rest > 1);
  };
  const watch = new ResizeObserver(seen => seen.forEach(one => edges(one.target.closest(".scroll"))));
  arrivals.push(root => {
    for (const scroll of root.querySelectorAll(".frame>.scroll")) {
      scroll.addEventListener("scroll", () => edges(scroll), {passive: true});
      watch.observe(scroll);
      watch.observe(scroll.firstElementChild);
    }
  });

  // The files that stand beside the page are in it.
  for (const button of document.querySelectorAll("[data-download]")) {
    button.addEventListener("click", async () => {
      const name = button.dataset.download;
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([await unpack(`download-${name}`)]));
      link.download = name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  for (const box of document.querySelectorAll("details.model")) {
    box.addEventListener("toggle", () => { if (box.open) fillAll(box); });
  }
  document.querySelectorAll("[data-part]").forEach(place => {
    if (!place.closest("details, [role=tabpanel]")) fill(place);
  });
  addEventListener("beforeprint", () => document.querySelectorAll("[role=tabpanel]").forEach(fillAll));
  arrivals.forEach(arrive => arrive(document.body));
  if (tabs.length) select(tabs[0]);
  follow();
}
