// Draws each chart of the page when it nears the viewport, in place of the static picture that
// stands there already. Pages that hold a chart load vega.js before this script.
(() => {
  "use strict";
  const isNarrow = (chart) => chart.clientWidth < window.narrowChart.below;

  function specification(chart, stacked) {
    const { config: slim, label } = window.narrowChart;
    const limit = isNarrow(chart) ? label * chart.clientWidth : Infinity;
    const spec = JSON.parse(chart.querySelector(".chart-spec").textContent, (key, value) =>
      key === "labelLimit" ? Math.min(value, limit) : value);
    const config = structuredClone(window.chartConfig);
    if (isNarrow(chart)) Object.assign(config.axis, slim.axis, { labelLimit: limit });
    if (stacked) Object.assign(config.legend, slim.legend);
    for (const param of spec.params ?? []) {
      if (param.bind && chart.view) param.value = chart.view.signal(param.name);
    }
    return { ...spec, config };
  }

  async function draw(chart, stacked = isNarrow(chart)) {
    if (chart.drawing || !chart.clientWidth) return;
    chart.drawing = true;
    const plot = chart.querySelector(".chart-plot");
    const controls = chart.querySelector(".chart-controls");
    const fresh = document.createElement("div");
    fresh.className = "chart-live chart-pending";
    plot.append(fresh);
    const spec = specification(chart, stacked);
    const bind = document.createElement("div");
    const { view } = await window.vegaEmbed(fresh, spec, {
      actions: false, renderer: "svg", bind, tooltip: { theme: "custom" },
    });
    chart.view?.finalize();
    chart.view = view;
    if (spec.usermeta?.ride) await window.boarding.drive(view, spec);
    chart.narrow = isNarrow(chart);
    chart.stacked = stacked;
    plot.querySelector(".chart-live:not(.chart-pending)")?.remove();
    fresh.classList.remove("chart-pending");
    controls.replaceChildren(...bind.childNodes);
    nameControls(controls);
    if (spec.usermeta?.text) report(chart, view, spec.usermeta.text);
    chart.drawing = false;
    chart.dataset.state = "live";
    refit(chart);
  }

  // Results in words under the chart, and a button that copies them.
  function report(chart, view, signal) {
    const box = chart.querySelector(".chart-report");
    if (!box.firstChild) {
      box.innerHTML = '<pre tabindex="0" aria-label="results in words"></pre><button type="button">Copy as text</button><span role="status"></span>';
      const [words, button, status] = box.children;
      button.addEventListener("click", async () => {
        status.textContent = (await copied(words)) ? " copied" : " select the text and copy it";
      });
    }
    const [words, , status] = box.children;
    const fill = (_, text) => {
      words.textContent = text;
      status.textContent = "";
    };
    fill(signal, view.signal(signal));
    view.addSignalListener(signal, fill);
  }

  async function copied(words) {
    try {
      await navigator.clipboard.writeText(words.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(words); // from a file, or without leave: the reader presses the keys
      return false;
    }
  }

  function nameControls(controls) {
    for (const input of controls.querySelectorAll("input, select")) {
      const name = input.closest(".vega-bind")?.querySelector(".vega-bind-name");
      if (name) input.setAttribute("aria-label", name.textContent);
    }
  }

  async function refit(chart) {
    if (chart.drawing || !chart.view || !chart.clientWidth) return;
    if (chart.narrow !== isNarrow(chart)) return draw(chart);
    if (chart.view.width() !== chart.clientWidth) await chart.view.width(chart.clientWidth).runAsync();
    if (!chart.stacked && legendOverflows(chart)) draw(chart, true);
  }

  function legendOverflows(chart) {
    const right = chart.getBoundingClientRect().right + 1;
    const legends = chart.querySelectorAll(".chart-live .role-legend");
    return [...legends].some((legend) => legend.getBoundingClientRect().right > right);
  }

  // Paper is white: while the page prints, it wears its light colours.
  function dressForPrint(event) {
    const { dataset } = document.documentElement;
    if (event.matches) {
      dataset.screenTheme ??= dataset.theme;
      dataset.theme = "light";
    } else if (dataset.screenTheme) {
      dataset.theme = dataset.screenTheme;
      delete dataset.screenTheme;
    }
  }
  matchMedia("print").addEventListener("change", dressForPrint);

  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting && !target.view) draw(target);
      }
    },
    { rootMargin: "500px 0px" },
  );
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) requestAnimationFrame(() => refit(target));
  });
  // What the reader came for is drawn at once, before the formulas are set.
  const wanted = ({ id }, { top, bottom }) => (location.hash ? location.hash === `#${id}` : top < innerHeight && bottom > 0);
  for (const chart of document.querySelectorAll(".chart")) {
    if (wanted(chart.closest("figure"), chart.getBoundingClientRect())) draw(chart);
    near.observe(chart);
    sized.observe(chart);
  }

  // A box that scrolls sideways must be within reach of the keyboard.
  for (const box of document.querySelectorAll(".table-scroll, div.math")) box.tabIndex = 0;
})();
